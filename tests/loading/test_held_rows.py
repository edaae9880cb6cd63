"""Rows of held tuples: what they keep of the record, and of where it came from."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import pyarrow as pa

from spark_jobs.definition.fates import REFUSED, SHED
from spark_jobs.definition.stream_tuple import POSITION, RANGE
from spark_jobs.loading.held_rows import HeldRows
from spark_jobs.loading.outcome import Held
from tests.loading.stream import Stream
from tests.proof.landed_sales import digest_id


def stored(orders: Stream, held: Held, units: tuple[str, ...] = ()) -> list[tuple]:
    """What is in the table afterwards, without the rest."""
    rows = HeldRows.build([held], orders.event, orders.fact.key, 1, units)
    with closing(psycopg2.connect(orders.url)) as connection, connection, connection.cursor() as cursor:
        rows.store(cursor)
        cursor.execute(
            "SELECT event_id, payload, payload_encoding, source_unit, source_position FROM freshet.held_tuple "
            "ORDER BY source_position, event_id"
        )
        return cursor.fetchall()


def from_ranges(tuples: pa.Table, ranges: list[int | None], positions: list[int]) -> pa.Table:
    return tuples.append_column(RANGE, pa.array(ranges, pa.int32())).append_column(POSITION, pa.array(positions))


def test_a_held_tuple_keeps_its_record_and_where_it_came_from(orders: Stream) -> None:
    records = [b'{"id": 1, "more": 2}', b'{"id": 2}']
    tuples = orders.tuples([{"id": n, "_record": record} for n, record in enumerate(records, 1)])
    held = Held(SHED, "no time", None, from_ranges(tuples, [1, 0], [40, 1 << 40]))
    assert stored(orders, held, ("a.json", r"b\xff.json")) == [
        ("[1]", '{"id": 1, "more": 2}', "json", r"b\xff.json", 40),
        ("[2]", '{"id": 2}', "json", "a.json", 1 << 40),
    ]


def test_a_tuple_of_no_source_came_from_nowhere(orders: Stream) -> None:
    [(event_id, payload, encoding, unit, position)] = stored(orders, orders.held([7]).held[0])
    assert (event_id, encoding, unit, position) == ("[7]", "json", None, None)
    assert payload.startswith('{"id":7,"amount":1.00,')


def test_a_record_that_could_not_be_decoded_or_has_no_id_is_known_by_its_digest(orders: Stream) -> None:
    assert [row[:3] for row in stored(orders, orders.malformed(b"no json").held[0])] == [
        (digest_id(b"no json"), "no json", "json")
    ]
    without = Held(REFUSED, "no id", None, orders.tuples([{"_record": b'{"id":null}'}]))
    assert (digest_id(b'{"id":null}'), '{"id":null}', "json") in [row[:3] for row in stored(orders, without)]
