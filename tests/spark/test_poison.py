"""A record that ends the process that reads it costs itself: all others are loaded, and it is held, as it arrived."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.definition import load_definition
from spark_jobs.driver import batch_run, stream_job
from spark_jobs.ledger import files_not_loaded
from spark_jobs.ledger.poison import PoisonSpan
from spark_jobs.proof.verification import verify
from spark_jobs.reprocessing.requeue import Requeued, requeue
from spark_jobs.reprocessing.state_rebuilding import rebuild_state
from spark_jobs.warehouse.connection import connect
from tests.deadly_reader import DeadlyReader, deadly_decoding, never_decoded
from tests.kafka_broker import Topic
from tests.spark import correlated_shop
from tests.spark.conftest import Shop
from tests.spark.correlated_shop import CorrelatedShop, order, payment
from tests.spark.shop import from_topic, land, query, sale, sales_definition

FACTS = "SELECT count(*) FROM shop.fact_sales"
HELD = "SELECT place, reason, payload, source_unit, source_position FROM freshet.held_tuple"
SIGNAL = "malformed: reading this record ended the process that read it (signal SIGSEGV)"


@pytest.fixture
def deadly(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Its tasks read as `DeadlyReader` does."""
    monkeypatch.setattr(stream_job, "SliceReader", DeadlyReader)
    return shop


def test_one_record_costs_itself_and_nobody_decodes_it_again(deadly: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop = deadly
    sound = [sale(n) for n in range(100)]
    land(shop.folder, "some", [*sound[:60], sale(1000, note="SEGV!"), *sound[60:]])
    land(shop.folder, "others", (sale(n) for n in range(100, 150)))
    shop.load()
    assert query(shop.url, FACTS) == [(150,)]
    [(place, reason, payload, unit, position)] = query(shop.url, HELD)
    content = (shop.folder / "landing" / "some.json").read_bytes()
    assert (place, reason, unit, position) == (
        "rejected",
        SIGNAL,
        "some.json",
        content.rindex(b"\n", 0, content.index(b"SEGV!")) + 1,
    )
    assert payload.encode() == content.splitlines()[60]
    assert f"some.json: what is at {position:,} is not decoded" in caplog.text
    with deadly_decoding(never_decoded):
        proof = shop.verify()
    assert (proof.holds, proof.facts, proof.rejected, proof.notes) == (True, 150, 1, ())
    with closing(connect(shop.url)) as connection:
        assert requeue(connection, "sales", "malformed") == Requeued(0, 1)

    caplog.clear()  # a driver that was cut off then, and the next one
    query(
        shop.url,
        """
        DELETE FROM shop.fact_sales; DELETE FROM freshet.held_tuple; DELETE FROM freshet.ledger_minute;
        UPDATE freshet.source_range SET state = 'planned', records = NULL;
        UPDATE freshet.batch SET state = 'started', closed_at = NULL, facts = 0, unmatched = 0, rejected = 0;
        """,
    )
    shop.load()
    assert query(shop.url, FACTS) == [(150,)]
    assert [reason for _, reason, *_ in query(shop.url, HELD)] == [SIGNAL]
    assert "ended its processes" not in caplog.text
    with deadly_decoding(never_decoded):
        assert shop.verify().holds


def test_a_file_that_takes_more_memory_than_there_is_is_set_aside_and_named(deadly: Shop) -> None:
    shop = deadly
    source = sales_definition(shop.folder)["source"]
    schema = "sale_id bigint, customer bigint, amount decimal(12,2), sold_at timestamp, name string"
    shop.define(source=source | {"format": "parquet", "schema": schema})
    columns = load_definition(shop.path).source.columns
    types = pa.schema([(name, kind.arrow()) for name, kind in columns.items()])
    for name, number, text in (("bomb", 1, "STARVING!"), ("good", 2, "x")):
        table = pa.table({"sale_id": [number], "customer": [1], "amount": ["1.25"], "sold_at": [0], "name": [text]})
        table = pa.table(
            [column.cast(kind) for column, kind in zip(table.columns, types.types, strict=True)], schema=types
        )
        pq.write_table(table, shop.folder / "landing" / f".{name}")
        (shop.folder / "landing" / f".{name}").rename(shop.folder / "landing" / f"{name}.parquet")
    shop.load()
    assert query(shop.url, "SELECT sale_id FROM shop.fact_sales") == [(2,)]
    with closing(connect(shop.url)) as connection:
        [trouble] = files_not_loaded.troubled_ranges(connection, "sales")
    assert (trouble.unit, trouble.state) == ("bomb.parquet", "set aside")
    assert "MiB of memory" in (trouble.reason or "")
    with deadly_decoding(never_decoded):
        proof = shop.verify()
    assert (proof.holds, [note.kind for note in proof.notes]) == (True, ["set_aside"])


def test_one_record_of_a_topic_costs_itself(deadly: Shop, topic: Topic) -> None:
    shop = deadly
    shop.define(from_topic(sales_definition(shop.folder), topic))
    topic.send([json.dumps(sale(n, note="SEGV!" if n == 33 else "")).encode() for n in range(60)])
    shop.load()
    assert query(shop.url, FACTS) == [(59,)]
    [(place, reason, payload, _, position)] = query(shop.url, HELD)
    assert (place, reason, position) == ("rejected", SIGNAL, 33)
    assert json.loads(payload) == sale(33, note="SEGV!")
    with deadly_decoding(never_decoded):
        proof = shop.verify()
    assert (proof.holds, proof.facts, proof.rejected) == (True, 59, 1)


def test_one_record_of_several_streams_costs_itself_and_a_state_is_made_anew_without_it(
    tmp_path: Path, warehouse_url: str, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_job, "SliceReader", DeadlyReader)
    query(warehouse_url, correlated_shop.TABLES)
    shop = CorrelatedShop(tmp_path, warehouse_url, spark)
    shop.define()
    shop.land("orders", [order(1), order(2, note="SEGV!"), order(3)])
    shop.land("payments", [payment(10, 1), payment(20, 2), payment(30, 3)])
    shop.load()
    assert shop.facts() == {(1, 10), (3, 30)}
    assert [held for held in shop.held().values() if held[0] == "rejected"] == [("rejected", SIGNAL)]
    shutil.rmtree(shop.home.join_state("paid"))
    with deadly_decoding(never_decoded):
        with closing(connect(shop.url)) as connection:
            assert rebuild_state(connection, load_definition(shop.path), shop.home, 2, print) is not None
        assert verify(load_definition(shop.path), shop.url, shop.home).holds


def test_processes_that_are_killed_from_outside_are_no_records_doing(
    deadly: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By SIGKILL, until the driver has looked for poison; then they are left alone."""
    shop = deadly
    killer = shop.folder / "killer"
    killer.touch()
    search = batch_run.search

    def search_and_leave(*arguments: Any) -> list[list[PoisonSpan]]:
        found = search(*arguments)
        killer.unlink()
        return found

    monkeypatch.setattr(batch_run, "search", search_and_leave)
    land(shop.folder, "some", [*(sale(n) for n in range(20)), sale(20, note=f"KILL!while {killer}")])
    shop.load()
    assert "no record of it ends the process that reads it" in caplog.text
    assert query(shop.url, FACTS) == [(21,)]
    assert query(shop.url, "SELECT count(*), count(poison) FROM freshet.source_range") == [(1, 0)]
    assert shop.verify().holds
