"""What happens to the source behind the stream's back is told, and costs no event."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from spark_jobs.driver import loop
from spark_jobs.ledger import files_not_loaded
from spark_jobs.source.files import landed_files
from tests.spark.conftest import Shop
from tests.spark.running_stream import running
from tests.spark.shop import land, query, sale, sales_definition
from tests.waiting import wait_for

FACTS = "SELECT count(*) FROM shop.fact_sales"
RANGES = "SELECT unit, state FROM freshet.source_range WHERE state <> 'retried' ORDER BY unit, range_id"


@pytest.fixture(autouse=True)
def _tidies_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_TIDY_SECONDS", 0.1)
    monkeypatch.setattr(landed_files, "_LOOK_AGAIN_SECONDS", 0.0)


def cut_off(shop: Shop) -> None:
    """Leave the last batch as a driver leaves it that is killed before any of its tasks has committed."""
    query(
        shop.url,
        """
        DELETE FROM shop.fact_sales; DELETE FROM freshet.held_tuple; DELETE FROM freshet.ledger_minute;
        UPDATE freshet.source_range SET state = 'planned', records = NULL;
        UPDATE freshet.batch SET state = 'started', closed_at = NULL, facts = 0, unmatched = 0, rejected = 0;
        """,
    )


def blocked_by(shop: Shop) -> str | None:
    found = query(shop.url, "SELECT blocked_by FROM freshet.driver ORDER BY epoch DESC LIMIT 1")
    return found[0][0] if found else None


def test_a_landing_folder_that_is_away_when_a_batch_is_replayed_is_waited_for(shop: Shop) -> None:
    land(shop.folder, "some", (sale(n) for n in range(100)))
    shop.load()
    cut_off(shop)
    landing, away = shop.folder / "landing", shop.folder / "away"
    landing.rename(away)
    landing.mkdir()  # as a mount point is there when what it is for is not
    with running(shop):
        wait_for(lambda: "some.json" in (blocked_by(shop) or ""), "the driver to say that it waits for the file")
        assert query(shop.url, FACTS) == [(0,)]
        landing.rmdir()
        away.rename(landing)
        wait_for(lambda: query(shop.url, FACTS) == [(100,)], "the batch to be loaded")
        wait_for(lambda: blocked_by(shop) is None, "the driver to say that it goes on")
    assert query(shop.url, "SELECT count(*), sum(arrived), sum(facts) FROM freshet.batch") == [(1, 100, 100)]
    assert shop.verify().holds


@pytest.mark.parametrize("others", [50, 0])
def test_a_file_that_is_gone_for_good_can_be_given_up(shop: Shop, others: int) -> None:
    land(shop.folder, "gone", (sale(n) for n in range(100)))
    if others:
        land(shop.folder, "some", (sale(n) for n in range(100, 100 + others)))
    shop.load()
    cut_off(shop)
    (shop.folder / "landing" / "gone.json").unlink()
    with running(shop):
        wait_for(lambda: "gone.json" in (blocked_by(shop) or ""), "the driver to say that it waits for the file")
        with closing(psycopg2.connect(shop.url)) as connection:
            assert files_not_loaded.give_up(connection, "sales", "gone.json", "given up by an operator")
        closed = "SELECT count(*) FROM freshet.batch WHERE state = 'committed'"
        wait_for(lambda: query(shop.url, closed) == [(1,)], "the rest of the batch to be loaded")
    assert query(shop.url, FACTS) == [(others,)]
    assert query(shop.url, RANGES) == [("gone.json", "lost"), ("some.json", "loaded")][: 2 if others else 1]


def test_a_file_that_comes_back_as_it_was_is_not_loaded_again(shop: Shop) -> None:
    landing, elsewhere = shop.folder / "landing" / "some.json", shop.folder / "some.json"
    with running(shop) as stream:
        land(shop.folder, "some", [sale(1000)])
        wait_for(lambda: stream.lives() and query(shop.url, FACTS) == [(1,)], "the file to be loaded")
        landing.rename(elsewhere)
        stream.sell([1])
        elsewhere.rename(landing)
        stream.sell([2])
    assert query(shop.url, "SELECT sum(arrived), sum(duplicates) FROM freshet.batch") == [(3, 0)]
    assert shop.verify().holds


def test_a_warehouse_restored_to_an_earlier_time_loads_the_rest_again(shop: Shop) -> None:
    land(shop.folder, "first", (sale(n) for n in range(100)))
    shop.load()
    tables = ["shop.fact_sales", *(f"freshet.{name}" for name in ("batch", "source_range", "held_tuple"))]
    for table in tables:
        query(shop.url, f"CREATE TABLE {table}_backup AS SELECT * FROM {table}")
    land(shop.folder, "second", [*(sale(n) for n in range(100, 180)), sale(180, customer=999_999)])
    shop.load()
    query(shop.url, "TRUNCATE freshet.ledger_minute")
    for table in reversed(tables):
        query(shop.url, f"DELETE FROM {table}")
    for table in tables:
        query(shop.url, f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM {table}_backup")
    shop.load()
    assert query(shop.url, FACTS) == [(180,)]
    assert query(shop.url, RANGES) == [("first.json", "loaded"), ("second.json", "loaded")]
    assert shop.verify().holds


def test_names_paths_and_times_that_others_can_not_spell_cost_no_event(shop: Shop) -> None:
    landing = shop.folder / "landing"
    source = sales_definition(shop.folder)["source"] | {"path": f"{landing}/../landing"}
    shop.define(source=source)
    land(shop.folder, "2150", (sale(n) for n in range(10)))
    os.utime(landing / "2150.json", (5_700_000_000,) * 2)
    shop.load()
    land(shop.folder, "a:b", (sale(n) for n in range(10, 20)))
    os.rename(landing / "a:b.json", os.fsencode(landing) + b"/caf\xe9:1.json")
    land(shop.folder, "a:b", (sale(n) for n in range(20, 30)))
    land(shop.folder, "50 %20#?", (sale(n) for n in range(30, 40)))
    os.utime(landing / "50 %20#?.json", (10_400_000_000,) * 2)  # in 2299: more ns since 1970 than 64 bits hold
    shop.load()
    assert query(shop.url, FACTS) == [(40,)]
    proof = shop.verify()
    assert proof.holds
    assert (proof.files, proof.pending_files) == (4, 0)


def test_an_unreadable_file_is_set_aside_and_named_until_it_is_replaced(shop: Shop) -> None:
    land(shop.folder, "good", (sale(n) for n in range(50)))
    lines = b"".join(json.dumps(sale(n)).encode() + b"\n" for n in range(50, 4000))
    packed = shop.folder / "landing" / "packed.json.gz"
    whole = subprocess.run(["gzip", "-c"], input=lines, stdout=subprocess.PIPE, check=True).stdout
    packed.write_bytes(whole[:-100])
    shop.load()
    assert query(shop.url, FACTS) == [(50,)]
    [(unit, state, records, reason)] = query(
        shop.url, "SELECT unit, state, records, reason FROM freshet.source_range WHERE state <> 'loaded'"
    )
    assert (unit, state, records) == ("packed.json.gz", "set aside", 0)
    assert "packed.json.gz" in reason
    assert shop.verify().holds
    shop.load()
    assert query(shop.url, RANGES) == [("good.json", "loaded"), ("packed.json.gz", "set aside")], "read once"
    with closing(psycopg2.connect(shop.url)) as connection:
        assert files_not_loaded.ask_to_retry(connection, "sales", "packed.json.gz")
    shop.load()
    assert query(shop.url, FACTS) == [(50,)], "read again as it is"
    packed.write_bytes(whole)
    shop.load()
    assert query(shop.url, FACTS) == [(4000,)]
    assert query(shop.url, RANGES) == [("good.json", "loaded"), ("packed.json.gz", "loaded")]
    assert shop.verify().holds


def test_a_packed_file_of_rejected_records_holds_nothing_up_and_is_held_row_by_row_when_asked(shop: Shop) -> None:
    def bounded(most: int) -> None:
        source = sales_definition(shop.folder)["source"]
        shop.define(source={**source, "options": {"most_rejected": most}})

    bounded(300)
    lines = b"".join(b'"%d"\n' % number for number in range(400)) + json.dumps(sale(50)).encode()
    packed = shop.folder / "landing" / "a.json.gz"
    packed.parent.mkdir(exist_ok=True)
    packed.write_bytes(gzip.compress(lines))
    land(shop.folder, "b", (sale(n) for n in range(50)))
    shop.load()
    assert query(shop.url, FACTS) == [(50,)]
    assert query(shop.url, "SELECT count(*) FROM freshet.held_tuple") == [(0,)]
    reason = "SELECT reason FROM freshet.source_range WHERE state = 'set aside'"
    assert "400 of its first 400 records can't be loaded" in query(shop.url, reason)[0][0]
    assert shop.verify().holds
    bounded(400)
    with closing(psycopg2.connect(shop.url)) as connection:
        assert files_not_loaded.ask_to_retry(connection, "sales", "a.json.gz")
    shop.load()
    assert query(shop.url, FACTS) == [(51,)]
    assert query(shop.url, "SELECT count(*) FROM freshet.rejected") == [(400,)]
    assert shop.verify().holds


def test_a_file_that_is_changed_after_it_was_loaded_is_told_and_loaded_when_asked(shop: Shop) -> None:
    with running(shop) as stream:
        stream.sell([1, 2, 3])
        changed = shop.folder / "landing" / "part-0.json"
        changed.write_bytes(changed.read_bytes() + json.dumps(sale(100)).encode() + b"\n")
        states = "SELECT state FROM freshet.source_range ORDER BY range_id"
        wait_for(lambda: query(shop.url, states) == [("loaded",), ("set aside",)], "the change to be told")
        with closing(psycopg2.connect(shop.url)) as connection:
            files_not_loaded.ask_to_retry(connection, "sales", "part-0.json")
        wait_for(lambda: stream.lives() and query(shop.url, FACTS) == [(4,)], "the file to be read again")
    assert query(shop.url, "SELECT sum(arrived), sum(facts), sum(duplicates) FROM freshet.batch") == [(7, 4, 3)]
    assert shop.verify().holds


@pytest.mark.parametrize("policy", ["archive", "delete"])
def test_loaded_files_are_removed_as_the_pipeline_says(shop: Shop, policy: str) -> None:
    archive = shop.folder / "archive"
    after_load: dict[str, Any] = {"archive": str(archive)} if policy == "archive" else {"delete_after": "1ms"}
    shop.define(source=sales_definition(shop.folder)["source"] | {"after_load": after_load})
    landing = shop.folder / "landing"
    with running(shop) as stream:
        stream.sell([1, 2])
        wait_for(lambda: not list(landing.iterdir()), "the loaded file to be removed")
        stream.sell([3])
        land(shop.folder, "part-0", [sale(50)])  # a name that comes again is another file
        wait_for(lambda: stream.lives() and query(shop.url, FACTS) == [(4,)], "the new file to be loaded")
        wait_for(lambda: not list(landing.iterdir()), "all loaded files to be removed")
    kept = sorted(path.name for path in archive.iterdir()) if archive.exists() else []
    assert len(kept) == (2 if policy == "archive" else 0) + (policy == "archive")
    assert query(shop.url, "SELECT count(*) FROM freshet.source_range WHERE removed_at IS NULL") == [(0,)]


def test_what_a_killed_driver_has_stored_of_a_file_that_was_changed_then_is_explained(shop: Shop) -> None:
    land(shop.folder, "changed", (sale(n) for n in range(10)))
    land(shop.folder, "other", (sale(n) for n in range(10, 15)))
    shop.load()
    # As a driver leaves it that is killed before it closes the batch.
    query(
        shop.url,
        """
        INSERT INTO freshet.batch_part
            (part_id, batch_no, facts, shed, unmatched, rejected, duplicates, event_latency, arrival_latency)
            SELECT gen_random_uuid(), batch_no, facts, shed, unmatched, rejected, 0, event_latency, arrival_latency
            FROM freshet.batch;
        UPDATE freshet.source_range SET state = 'planned', records = NULL;
        UPDATE freshet.batch SET state = 'started', arrived = NULL, closed_at = NULL, facts = 0;
        """,
    )
    land(shop.folder, "changed", (sale(n) for n in range(100, 103)))
    shop.load()
    assert query(shop.url, RANGES) == [("changed.json", "loaded"), ("other.json", "loaded")]
    proof = shop.verify()
    assert (proof.differences, proof.gone_facts) == ((), 10)
    query(
        shop.url,
        "INSERT INTO shop.fact_sales SELECT (jsonb_populate_record(NULL::shop.fact_sales, former)).* FROM ("
        "SELECT to_jsonb(fact) || jsonb_build_object('sale_id', 1000 + n) AS former "
        "FROM (SELECT * FROM shop.fact_sales LIMIT 1) AS fact, generate_series(1, 20) AS n) AS formers",
    )
    # Of the 30 whose records are nowhere its batch has stored 15 at most, those of the other file among them.
    assert ("extra_fact", 15) in [(each.kind, each.count) for each in shop.verify().differences]


def test_a_large_file_is_loaded_in_several_batches(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landed_files, "_SMALLEST_RANGE", 1)
    monkeypatch.setattr("spark_jobs.driver.admission.Admission.SMALLEST", 20_000)
    monkeypatch.setattr("spark_jobs.driver.admission.Admission.LARGEST", 20_000)
    monkeypatch.setattr("spark_jobs.driver.batch_run.BatchRun.most_bytes", 20_000)
    land(shop.folder, "large", (sale(n) for n in range(1000)))
    shop.load()
    [(batches, arrived)] = query(shop.url, "SELECT count(*), sum(arrived) FROM freshet.batch")
    assert (batches > 3, arrived) == (True, 1000)
    assert query(shop.url, FACTS) == [(1000,)]
    assert shop.verify().holds
