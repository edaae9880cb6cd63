"""Tuples that were pruned before their hash codes were kept: after the upgrade they are known like all others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import psycopg2
import pyarrow as pa
import pytest

from spark_jobs.columns.copy_encoding.column_encoder import PostgresType
from spark_jobs.definition.stream_tuple import LoadCounts
from spark_jobs.ledger.retention import prune_held
from spark_jobs.warehouse.event_id import event_hashes, event_id_texts
from spark_jobs.warehouse.fact_table import FactColumn
from spark_jobs.warehouse.migration import migrate
from tests.ledger.ledger_rows import execute
from tests.loading.stream import TIME, Stream
from tests.proof.landed_sales import digest_id

GIFT = "f7b1c2d3-0a0b-4c0d-8e0f-102030405060"
GIFTS = pa.table(
    {
        "gift": pa.array([GIFT, GIFT, "Ä/ü"]),
        "price": pa.array([Decimal("17.00"), Decimal("17.50"), Decimal("0.10")], pa.decimal128(15, 2)),
        "at": pa.array([datetime(2024, 5, 1, 10, 20, 30, n, tzinfo=UTC) for n in (0, 1, 500_000)], TIME),
        "part": pa.array([1, -2, 3], pa.int32()),
        "day": pa.array([datetime(2024, 5, n, tzinfo=UTC).date() for n in (1, 2, 3)]),
    }
)
TEXT, UUID = PostgresType("text", "text"), PostgresType("uuid", "uuid")
KEY = [FactColumn(name, name, GIFTS[name].type, UUID if name == "gift" else TEXT, False) for name in GIFTS.column_names]


def define(schema: str, *event_id: str) -> str:
    """A definition as it is registered, as far as ids are concerned."""
    return json.dumps({"source": {"schema": schema, "event_id": event_id}, "fact": {"table": "a.b", "columns": {}}})


@pytest.fixture
def upgraded(empty_database_url: str) -> Iterator[Stream]:
    """Orders 1 and 2 and a broken record were pruned before the upgrade; order 2 was sent again and is held."""
    migrate(empty_database_url, "0006")
    gifts = event_id_texts(GIFTS, KEY).to_pylist()
    pruned = [("orders", text) for text in ("[1]", "[2]", digest_id(b"no json"))]
    pruned += [("gifts", text) for text in gifts] + [("gifts", "[5]"), ("gone", "[6]")]
    with closing(psycopg2.connect(empty_database_url)) as connection:
        for name, definition in [
            ("orders", define("id bigint, at timestamp", "id")),
            (
                "gifts",
                define("gift string, price decimal(15,2), at timestamp, part int, day date", *GIFTS.column_names),
            ),
        ]:
            execute(
                connection,
                "INSERT INTO freshet.pipeline (name, freshness_target, definition) VALUES (%s, '5s', %s)",
                name,
                definition,
            )
        for row in pruned:
            execute(
                connection,
                "INSERT INTO freshet.pruned_tuple (pipeline, event_id, place) VALUES (%s, %s, 'rejected')",
                *row,
            )
        execute(
            connection,
            "INSERT INTO freshet.held_tuple (pipeline, event_id, event_hash, place, reason, payload, payload_encoding, "
            "arrived_at, batch_no) VALUES ('orders', '[2]', 0, 'rejected', 'r', '{}', 'json', now(), 1)",
        )
        execute(connection, "INSERT INTO freshet.ledger_pruned (pipeline, rejected) VALUES ('orders', 4)")
        migrate(empty_database_url)
        execute(connection, "UPDATE freshet.pipeline SET definition = '{}'")  # as Stream registers it
    stream = Stream(empty_database_url)
    yield stream
    stream.close()


def prune(stream: Stream) -> int:
    stream.connection.autocommit = True
    try:
        return prune_held(stream.connection, "orders", "rejected", timedelta(0), most=100)
    finally:
        stream.connection.autocommit = False


def test_sent_again_they_are_duplicates_and_retention_goes_on(upgraded: Stream) -> None:
    broken = upgraded.malformed(b"no json")
    assert upgraded.load(upgraded.facts([1, 3])) == LoadCounts(facts=1, duplicates=1)
    assert upgraded.load(upgraded.held([1, 4], "rejected"), broken) == LoadCounts(rejected=1, duplicates=2)
    assert prune(upgraded) == 2
    assert upgraded.query("SELECT count(*) FROM freshet.pruned_tuple WHERE pipeline = 'orders'") == [(4,)]


def test_one_that_was_held_a_second_time_is_held_only_and_has_arrived_once(upgraded: Stream) -> None:
    assert upgraded.query(
        "SELECT count(*) FROM freshet.pruned_tuple JOIN freshet.held_tuple USING (pipeline, event_id)"
    ) == [(0,)]
    assert upgraded.query("SELECT rejected::int, duplicates::int FROM freshet.ledger_pruned") == [(3, 1)]


def test_ids_of_all_types_get_the_hash_codes_that_loaders_look_for(upgraded: Stream) -> None:
    found = upgraded.query("SELECT event_id, event_hash, batch_no FROM freshet.pruned_tuple WHERE pipeline = 'gifts'")
    codes = dict(zip(event_id_texts(GIFTS, KEY).to_pylist(), event_hashes(GIFTS, KEY).tolist(), strict=True))
    assert {event_id: code for event_id, code, _ in found} == codes | {"[5]": 0}
    assert {batch_no for *_, batch_no in found} == {0}


def test_an_event_with_two_places_does_not_keep_others_from_being_pruned(upgraded: Stream) -> None:
    upgraded.load(upgraded.held([7], "rejected"))
    upgraded.query("INSERT INTO freshet.pruned_tuple SELECT pipeline, event_id, place, now(), event_hash, batch_no "
                   "FROM freshet.held_tuple WHERE event_id = '[7]'")  # fmt: skip
    assert prune(upgraded) == 2
    assert upgraded.query("SELECT rejected::int, duplicates::int FROM freshet.ledger_pruned") == [(2, 2)]
