"""A stream from Kafka: loaded through Spark from a real broker, exactly once, whatever happens to it."""

from __future__ import annotations

import base64
import io
import json
import shutil
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import fastavro
import pytest
import yaml

from spark_jobs.definition import load_definition
from spark_jobs.driver import retry_policy
from spark_jobs.errors import FreshetError
from spark_jobs.ledger import batch_ledger
from spark_jobs.ledger.status.pipeline_status import read_status
from spark_jobs.local.embedded_kafka.broker import KafkaBroker
from spark_jobs.proof.proof import Proof
from spark_jobs.proof.verification import verify
from spark_jobs.reprocessing.reprocessing_job import ReprocessingJob
from spark_jobs.reprocessing.request import ReprocessingRequest
from spark_jobs.reprocessing.state_rebuilding import RebuiltState, rebuild_state
from spark_jobs.source.kafka import offsets as kafka_offsets
from spark_jobs.warehouse.connection import connect
from tests.kafka_broker import PASSWORD, Topic
from tests.schema_registry import Registry, confluent
from tests.spark.conftest import Shop
from tests.spark.correlated_shop import TABLES, CorrelatedShop, order, payment
from tests.spark.running_stream import running
from tests.spark.shop import from_topic, query, sale, sales_definition
from tests.waiting import wait_for


def define(shop: Shop, topic: Topic, *, event_id: list[str] | None = None, **kafka: Any) -> None:
    """Let the shop's pipeline read the topic."""
    definition = from_topic(sales_definition(shop.folder), topic, **kafka)
    definition["source"]["event_id"] = event_id or definition["source"]["event_id"]
    shop.define(definition)


def sales(numbers: Iterable[int]) -> list[bytes]:
    return [json.dumps(sale(number)).encode() for number in numbers]


def facts(shop: Shop) -> list[int]:
    return [number for (number,) in query(shop.url, "SELECT sale_id FROM shop.fact_sales ORDER BY sale_id")]


def ranges(shop: Shop | CorrelatedShop, state: str) -> list[tuple[int, int]]:
    rows = query(
        shop.url,
        "SELECT first, last FROM freshet.source_range WHERE state = %s AND last > first ORDER BY range_id",
        [state],
    )
    return [(first, last) for first, last in rows]


def test_what_is_in_a_topic_is_loaded_once(shop: Shop, topic: Topic) -> None:
    define(shop, topic)
    topic.send(sales(range(300)))
    shop.load()
    topic.send(sales(range(250, 400)))
    shop.load()
    shop.load()
    assert facts(shop) == list(range(400))
    assert query(shop.url, "SELECT sum(arrived), sum(facts), sum(duplicates) FROM freshet.batch") == [(450, 400, 50)]
    assert query(shop.url, "SELECT record_offset FROM freshet.partition_mark") == [(449,)]


def test_records_without_a_value_and_malformed_ones_are_rejected_each_with_its_place(shop: Shop, topic: Topic) -> None:
    define(shop, topic)
    topic.send([*sales(range(3)), None, b"", None, b'{"sale_id": "four"}'])
    shop.load()
    held = query(shop.url, "SELECT reason, source_unit, source_position FROM freshet.rejected ORDER BY source_position")
    assert [(reason.partition(":")[0], unit.partition("@")[0], offset) for reason, unit, offset in held] == [
        ("null value", f"{topic.name}:0", 3),
        ("empty value", f"{topic.name}:0", 4),
        ("null value", f"{topic.name}:0", 5),
        ("malformed", f"{topic.name}:0", 6),
    ]
    assert facts(shop) == [0, 1, 2]


def test_tombstones_may_be_ignored_and_are_counted(shop: Shop, topic: Topic) -> None:
    define(shop, topic, tombstones="ignore")
    topic.send([*sales(range(3)), None, None, b""])
    shop.load()
    assert query(shop.url, "SELECT arrived, facts, rejected, statistics -> 'ignored' FROM freshet.batch") == [
        (4, 3, 1, 2)
    ]


def test_what_retention_removed_before_it_was_read_is_counted_as_lost(shop: Shop, topic: Topic) -> None:
    define(shop, topic)
    topic.send(sales(range(10)))
    shop.load()
    topic.send(sales(range(10, 30)))
    topic.remove_before(25)
    shop.load()
    assert facts(shop) == [*range(10), *range(25, 30)]
    assert ranges(shop, "lost") == [(10, 25)]


def test_a_topic_that_was_made_anew_is_not_read_unasked(
    shop: Shop, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_policy, "MOST_FAILURES", 1)
    define(shop, topic)
    topic.send(sales(range(10)))
    shop.load()
    topic.delete()
    topic.make()
    topic.send(sales(range(100, 120)))
    with pytest.raises(FreshetError, match="made anew"):
        shop.load()
    assert facts(shop) == list(range(10))
    define(shop, topic, made_anew="read")
    shop.load()
    assert facts(shop) == [*range(10), *range(100, 120)]


def test_records_of_ten_megabytes(shop: Shop, broker: KafkaBroker, topic: Topic) -> None:
    large = Topic(broker, f"{topic.name}-large", max_message_bytes=str(15 << 20))
    define(shop, large)
    large.send([json.dumps(sale(number, note="x" * (10 << 20))).encode() for number in range(3)])
    shop.load()
    assert facts(shop) == list(range(3))


def test_held_records_come_back_by_their_place(shop: Shop, topic: Topic) -> None:
    """The default event id is no part of the record."""
    query(shop.url, "CREATE TABLE shop.fact_places (t text, p int, o bigint, sk bigint, PRIMARY KEY (t, p, o))")
    define(shop, topic)
    definition = yaml.safe_load(shop.path.read_text())
    del definition["source"]["event_id"]
    columns = {"t": "_topic", "p": "_partition", "o": "_offset", "sk": "customer_sk"}
    shop.path.write_text(
        yaml.safe_dump({**definition, "fact": {"table": "shop.fact_places", "columns": columns}}, sort_keys=False)
    )
    topic.send([*sales(range(3)), json.dumps(sale(3, customer=5000)).encode()])
    shop.load()
    assert query(shop.url, "SELECT event_id FROM freshet.unmatched") == [(f'["{topic.name}",0,3]',)]
    query(shop.url, "INSERT INTO shop.customer VALUES (5000, 77, 'new')")
    reprocess(shop)
    assert query(shop.url, "SELECT o, sk FROM shop.fact_places WHERE o = 3") == [(3, 77)]


def test_verify_proves_what_the_topic_still_holds_and_says_what_it_does_not(shop: Shop, topic: Topic) -> None:
    define(shop, topic)
    topic.send([*sales(range(20)), None, b'{"sale_id": "x"}', json.dumps(sale(20, customer=5000)).encode()])
    shop.load()
    proof = shop.verify()
    assert (proof.differences, proof.records, proof.facts, proof.rejected, proof.unmatched) == ((), 23, 20, 2, 1)
    topic.remove_before(10)
    topic.send(sales(range(30, 35)))
    proof = shop.verify()
    assert (proof.differences, proof.records, proof.pending_records) == ((), 18, 5)
    assert proof.gone_facts == 10
    query(shop.url, "DELETE FROM shop.fact_sales WHERE sale_id = 15")
    assert [each.kind for each in shop.verify().differences if each.kind == "missing"]


def proved(shop: CorrelatedShop) -> Proof:
    return verify(load_definition(shop.path), shop.url, shop.home)


def rebuild(shop: CorrelatedShop) -> RebuiltState | None:
    with closing(connect(shop.url)) as connection:
        return rebuild_state(connection, load_definition(shop.path), shop.home, 2, print)


def reprocess(shop: Shop | CorrelatedShop) -> None:
    request = ReprocessingRequest(limit=10, yields=False)
    ReprocessingJob(load_definition(shop.path), shop.url, request, lambda: shop.spark, shop.home).run()


def test_a_topic_is_joined_with_a_folder(tmp_path: Path, warehouse_url: str, spark: Any, broker: KafkaBroker) -> None:
    """Each keeps its position, gives what is late and what is lost, and brings the state back."""
    query(warehouse_url, TABLES)
    shop = CorrelatedShop(tmp_path, warehouse_url, spark)
    orders = Topic(broker, f"orders-{tmp_path.name}", partitions=2)
    shop.define(topics={"orders": orders})
    for first in (0, 50):
        shop.land("orders", [order(n, n) for n in range(first, first + 50)])
        shop.land("payments", [payment(n, n, n + 1) for n in range(first, first + 60, 2)])
        shop.load()
    shop.land("orders", [order(0, 0), b"no json", b"", order(200, 500)])
    shop.land("payments", [payment(200, 200, 500)])
    shop.load()
    assert shop.facts() == {(n, n) for n in (*range(0, 100, 2), 200)}
    marks = query(shop.url, "SELECT unit, record_offset FROM freshet.partition_mark ORDER BY unit")
    assert [(unit.partition("@")[0], offset) for unit, offset in marks] == [
        (f"orders/{orders.name}:0", 51),
        (f"orders/{orders.name}:1", 51),
    ]
    assert shop.law()["orders"] | {"expired": 0, "waiting": 0} == {
        "arrived": 104, "duplicates": 1, "rejected": 2, "late": 0, "joined": 51, "expired": 0, "waiting": 0,
    }  # fmt: skip
    places = query(shop.url, "SELECT source_unit, source_position FROM freshet.rejected ORDER BY source_position")
    assert [(unit.partition("@")[0], offset) for unit, offset in places] == [
        (f"orders/{orders.name}:1", 50),
        (f"orders/{orders.name}:0", 51),
    ]
    assert proved(shop).differences == ()

    shutil.rmtree(shop.home.join_state("paid"))
    assert rebuild(shop) is not None
    shop.land("orders", [order(300, 200), order(301, 1000)])  # the first one is late
    shop.land("payments", [payment(300, 300, 201), payment(301, 301, 1000)])
    shop.load()
    late = {event_id for event_id, (_, reason) in shop.held().items() if reason.startswith("late")}
    assert late == {"orders/[300]", "payments/[300]"}
    reprocess(shop)
    assert (300, 300) in shop.facts()
    assert proved(shop).differences == ()

    orders.send([json.dumps(order(number, 1000)).encode() for number in (400, 401, 402)])
    orders.remove_before(55)
    shop.land("payments", [payment(number, number, 1000) for number in (400, 401, 402)])
    shop.load()
    assert ranges(shop, "lost") == [(53, 55)]
    assert {(402, 402)} == {fact for fact in shop.facts() if fact[0] >= 400}
    proof = proved(shop)
    assert proof.differences == ()
    assert {note.kind for note in proof.notes} == {"lost", "gone"}
    with closing(connect(shop.url)) as connection:
        (status,) = read_status(connection)
    assert [(each.partition, each.position, each.end) for each in status.lag.partitions] == [
        (f"orders/{orders.name}:0", 56, 56),
        (f"orders/{orders.name}:1", 53, 53),
    ]
    shutil.rmtree(shop.home.join_state("paid"))
    with pytest.raises(FreshetError, match=rf"{orders.name}:0 is needed.*removed by the topic's retention"):
        rebuild(shop)
    orders.delete()
    orders.make(partitions=2)
    with pytest.raises(FreshetError, match=rf"{orders.name}:\d is needed.*deleted and made anew"):
        rebuild(shop)


def test_parts_of_a_fact_come_from_topics_and_wait_under_their_places(
    tmp_path: Path, warehouse_url: str, spark: Any, broker: KafkaBroker
) -> None:
    query(warehouse_url, TABLES)
    query(
        warehouse_url,
        "CREATE TABLE shop.fact_filled (order_id bigint PRIMARY KEY, customer bigint, t text, p int, o bigint, "
        "amount numeric(10, 2), pt text, pp int, po bigint)",
    )
    shop = CorrelatedShop(tmp_path, warehouse_url, spark)
    topics = {name: Topic(broker, f"{name}-{tmp_path.name}") for name in ("orders", "payments")}
    shop.define(topics=topics)
    definition = yaml.safe_load(shop.path.read_text())
    columns = {"order_id": "orders.order_id", "customer": "orders.customer", "amount": "payments.amount"}
    places = {"t": "_topic", "p": "_partition", "o": "_offset"}
    for stream, prefix in (("orders", ""), ("payments", "p")):
        del definition["streams"][stream]["event_id"]
        columns |= {f"{prefix}{column}": f"{stream}.{source}" for column, source in places.items()}
    del definition["join"]
    definition["accumulate"] = {"on": dict.fromkeys(topics, "order_id")}
    definition["fact"] = {"table": "shop.fact_filled", "columns": columns}
    shop.path.write_text(yaml.safe_dump(definition, sort_keys=False))
    shop.land("payments", [payment(n, n) for n in range(30)])
    shop.load()
    shop.land("orders", [*(order(n) for n in range(20)), b"no json"])
    shop.land("payments", [payment(99, 5)])
    shop.load()
    assert query(shop.url, "SELECT order_id, o, po FROM shop.fact_filled ORDER BY 1") == [(n, n, n) for n in range(20)]
    assert {event_id: place for event_id, (place, _) in shop.held().items()} == {
        f'payments/["{topics["payments"].name}",0,{n}]': "rejected" if n == 30 else "unmatched" for n in range(20, 31)
    } | {f'orders/["{topics["orders"].name}",0,20]': "rejected"}
    assert proved(shop).differences == ()


def test_a_batch_that_is_cut_off_is_read_again_by_its_offsets(
    shop: Shop, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its facts are stored, and the driver dies before the ledger knows; the next one has the same offsets to read."""
    define(shop, topic)
    topic.send([*sales(range(40)), None])
    with monkeypatch.context() as fault:
        fault.setattr(batch_ledger, "close_batch", Mock(side_effect=RuntimeError("killed")))
        fault.setattr(retry_policy, "MOST_FAILURES", 1)
        with pytest.raises(FreshetError, match="killed"):
            shop.load()
    assert facts(shop) == list(range(40))
    assert ranges(shop, "planned") == [(0, 41)]
    topic.send(sales(range(40, 60)))
    shop.load()
    assert facts(shop) == list(range(60))
    assert ranges(shop, "loaded") == [(0, 41), (41, 61)]
    assert query(shop.url, "SELECT sum(arrived), sum(facts), sum(rejected) FROM freshet.batch") == [(61, 60, 1)]
    assert shop.verify().holds


def test_a_broker_that_is_killed_is_waited_for(
    shop: Shop, topic: Topic, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_offsets, "_ANSWER_SECONDS", 1.0)
    define(shop, topic)
    blocked = "SELECT blocked_by FROM freshet.driver WHERE blocked_by LIKE '%%Kafka%%'"
    with running(shop) as stream:
        topic.send(sales(range(50)))
        wait_for(lambda: stream.lives() and len(facts(shop)) == 50, "the first sales")
        broker.kill()
        try:
            wait_for(lambda: stream.lives() and query(shop.url, blocked) != [], "the driver to say that it waits")
        finally:
            with broker.kept_running():
                topic.send(sales(range(50, 80)))
        wait_for(lambda: stream.lives() and len(facts(shop)) == 80, "the other sales")
    assert query(shop.url, "SELECT sum(arrived), sum(facts) FROM freshet.batch") == [(80, 80)]


def test_a_secured_broker_is_read_and_its_password_is_nowhere_to_be_seen(
    shop: Shop, topic: Topic, connected: Callable[[str], dict[str, str]]
) -> None:
    define(shop, topic, **connected(PASSWORD))
    topic.send(sales(range(30)))
    shop.load()
    assert facts(shop) == list(range(30))
    of_ledger = "relnamespace = 'freshet'::regnamespace AND relkind = 'r'"
    tables = query(shop.url, f"SELECT relname FROM pg_class WHERE {of_ledger}")
    written = [str(query(shop.url, f"SELECT * FROM freshet.{table}")) for (table,) in tables]
    written += [shop.path.read_text(), str(shop.spark.getConf().getAll())]
    assert any(topic.name in each for each in written)
    assert not any(PASSWORD in each for each in written)


ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Sale",
    "fields": [
        {"name": "sale_id", "type": "long"},
        {"name": "customer", "type": ["null", "long"]},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "sold_at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}


# A type that was narrower, a field that is no column, and one that is missing; then one of another type.
EVOLVED: dict[int, dict[str, Any]] = {
    2: ORDER | {"fields": [ORDER["fields"][0] | {"type": "int"}, *ORDER["fields"][1:], {"name": "n", "type": "int"}]},
    3: ORDER | {"fields": [field for field in ORDER["fields"] if field["name"] != "amount"]},
    4: ORDER | {"fields": [*ORDER["fields"][:3], {"name": "sold_at", "type": "boolean"}]},
}


def avro_sale(number: int, schema_id: int = 1, **changes: Any) -> bytes:
    values = sale(number) | {"n": 1} | changes
    values |= {"amount": Decimal(values["amount"]), "sold_at": datetime.fromisoformat(values["sold_at"])}
    if schema_id == 4:
        values["sold_at"] = True
    content = io.BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(EVOLVED.get(schema_id, ORDER)), values)
    return confluent(schema_id, content.getvalue())


def test_avro_of_a_registry_is_loaded_held_and_proved_and_the_registry_waited_for(
    shop: Shop, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry()
    for schema_id, schema in {1: ORDER, **EVOLVED}.items():
        registry.register(schema_id, schema)
    with registry.answering():
        pass  # it has an address now, and is away
    define(shop, topic)
    definition = yaml.safe_load(shop.path.read_text())
    definition["source"] |= {"format": "avro", "avro": {"registry": registry.url}}
    shop.path.write_text(yaml.safe_dump(definition, sort_keys=False))
    bad = [avro_sale(20, schema_id=9), b"{}"]
    topic.send([*map(avro_sale, range(20)), *bad, avro_sale(21, customer=5000), None])
    topic.send([avro_sale(number, schema_id=number - 20) for number in (22, 23, 24)])
    with monkeypatch.context() as patience:
        patience.setattr(retry_policy, "MOST_FAILURES", 1)
        with pytest.raises(FreshetError, match=r"schema registry .* can't be asked"):
            shop.load()
    assert facts(shop) == []
    with registry.answering():
        shop.load()
        assert facts(shop) == [*range(20), 22, 23]
        assert query(shop.url, "SELECT amount FROM shop.fact_sales WHERE sale_id = 23") == [(None,)]
        held = query(
            shop.url,
            "SELECT reason, source_unit, source_position, payload, payload_encoding FROM freshet.rejected "
            "ORDER BY source_position",
        )
        assert [(unit.partition("@")[0], offset) for _, unit, offset, *_ in held] == [
            (f"{topic.name}:0", offset) for offset in (20, 21, 23, 26)
        ]
        unknown, no_head, _, unfit = held
        assert "sold_at" in unfit[0]
        assert unknown[0] == "malformed: schema id 9 is unknown to the registry"
        assert (base64.b64decode(unknown[3]), unknown[4]) == (bad[0], "avro.base64")
        assert no_head[3:] == ("{}", "avro")
        proof = shop.verify()
        assert (proof.differences, proof.records, proof.facts, proof.rejected, proof.unmatched) == ((), 27, 22, 4, 1)
    # What is held of a record that was read needs no registry any more.
    query(shop.url, "INSERT INTO shop.customer VALUES (5000, 77, 'new')")
    reprocess(shop)
    assert query(shop.url, "SELECT customer_sk, amount FROM shop.fact_sales WHERE sale_id = 21") == [
        (77, Decimal("21.25"))
    ]
