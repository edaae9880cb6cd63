"""Stored event ids have the hash codes that they had when they were loaded, whatever their types."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from psycopg2 import sql

from spark_jobs.columns.event_id import event_hashes, event_id_texts
from spark_jobs.definition.ddl import StreamType, parse_columns
from spark_jobs.definition.fates import MALFORMED, SHED
from spark_jobs.loading.outcome import Held, Outcome
from spark_jobs.sketches.id_sketch import IdSketch
from spark_jobs.validation.fact_columns import FactColumns
from spark_jobs.validation.stored_ids import sketch_stored, stored_nowhere
from tests.loading.stream import Stream

# Column -> its type in the stream, its type in the warehouse, and two values.
KEY = {
    "number": ("int", "bigint", [7, -(2**31)]),
    "amount": ("decimal(12,4)", "numeric(12, 4)", [Decimal("1.5000"), Decimal("-0.0001")]),
    "name": ("string", "text", ["", 'a "quoted"\tünïcode']),
    "guid": ("string", "uuid", ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc999c0b4ef8bb6d6bb9bd380a12"]),
    "flag": ("boolean", "boolean", [True, False]),
    "day": ("date", "date", [date(1969, 12, 31), date(2026, 3, 1)]),
    "moment": ("timestamp", "timestamptz", [datetime(1960, 1, 1, 1, 2, 3, 4, UTC), datetime(2026, 3, 1, tzinfo=UTC)]),
    "local": ("timestamp", "timestamp", [datetime(1960, 1, 1, 1, 2, 3, 4, UTC), datetime(2026, 3, 1, tzinfo=UTC)]),
}
TYPES: dict[str, StreamType] = parse_columns(", ".join(f"{name} {kind}" for name, (kind, _, _) in KEY.items()))
COLUMNS = ", ".join(f"{name} {kind}" for name, (_, kind, _) in KEY.items())


@pytest.fixture
def stream(clean_warehouse: str) -> Iterator[Stream]:
    ddl = f"CREATE TABLE warehouse.fact ({COLUMNS}, PRIMARY KEY ({', '.join(KEY)}))"
    stream = Stream(clean_warehouse, ddl, {name: kind.arrow() for name, kind in TYPES.items()}, tuple(KEY))
    yield stream
    stream.close()


def tuples(stream: Stream, which: int) -> pa.Table:
    return stream.tuples([{name: values[which] for name, (_, _, values) in KEY.items()}])


def test_facts_and_held_tuples_of_every_type(stream: Stream) -> None:
    fact, held = tuples(stream, 0), tuples(stream, 1)
    nameless = stream.tuples([{"_record": b"{"}])
    groups = [Held(SHED, "late", None, held), Held(MALFORMED, "bad", None, nameless, identified=False)]
    stream.load(Outcome(fact, groups))
    key = stream.fact.key
    expected = IdSketch(event_hashes(pa.concat_tables([fact, held]), key))
    [(digest,)] = stream.query("SELECT event_id FROM freshet.held_tuple WHERE starts_with(event_id, '{')")
    types = {column.name: column.type.name for column in key}
    table = sql.Identifier("warehouse", "fact")
    columns = FactColumns(table, types, (), tuple(KEY), None, None, False, key, tuple(TYPES.values()))
    every = sql.SQL("true")
    with stream.connection, stream.connection.cursor() as cursor:
        cursor.execute("SET timezone TO 'UTC'")
        left = sketch_stored(cursor, "orders", columns, every, sql.SQL("starts_with(event_id, '[')"))
        left -= expected
        assert left.is_zero
        assert sketch_stored(cursor, "orders", columns, every, every).count == 3
        texts = event_id_texts(pa.concat_tables([fact, held]), key).to_pylist()
        unknown = texts[0].replace("7,", "8,", 1)
        assert stored_nowhere(cursor, "orders", columns, [*texts, digest, unknown]) == [unknown]
