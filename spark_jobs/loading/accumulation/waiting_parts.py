"""Parts that wait, as held tuples, for the part that makes their row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa
from psycopg2 import extensions

from spark_jobs.definition.fates import WAITING
from spark_jobs.definition.joined_tuple import STREAM_SEPARATOR
from spark_jobs.definition.stream_tuple import ARRIVED_AT
from spark_jobs.loading.accumulation.parts import of_joined_tuple
from spark_jobs.loading.chunk import fitting
from spark_jobs.loading.held_rows import storable_reasons
from spark_jobs.loading.outcome import Held, Rejection
from spark_jobs.loading.payload import HELD_ID, held_table
from spark_jobs.warehouse.part_table import AccumulatingTable, PartTable


class ReadBack(Protocol):
    """Makes tuples of a stream of held ones, as spark_jobs.source.held_records does."""

    def read(self, held: pa.Table, kept: Sequence[str]) -> tuple[pa.Table, list[Held]]:
        """The tuples that are what was held, with the columns `kept`, and the others by the reason why not."""


WAITS = f"correlation_key IS NOT NULL AND fate = '{WAITING}'"
"""Condition on freshet.held_tuple: a part waits for its row."""

_KEPT = (HELD_ID, ARRIVED_AT)
_AT_ONCE = 20_000


class WaitingParts(NamedTuple):
    """Parts of one stream that wait.

    Attributes:
        tuples: shape (n,), those that can be placed: with the joined tuple's columns, `_held_id`, `_batch_no`; in the
            order in which they came.
        rejected: event id of each that can't, as it is held -> its fate, and why.
    """

    tuples: pa.Table
    rejected: dict[str, Rejection]


def waiting_parts(
    cursor: extensions.cursor,
    table: AccumulatingTable,
    read_back: Sequence[ReadBack],
    pipeline: str,
    keys: Sequence[str],
    batch_no: int,
) -> dict[str, WaitingParts]:
    """The parts that wait for rows of these keys, by stream; locked until the transaction ends.

    Args:
        cursor: in a transaction.
        table: the fact table.
        read_back: of each stream.
        pipeline: its name.
        keys: canonical texts of keys.
        batch_no: the batch that is to place them.

    Returns:
        of the streams that have some. An index probe a key; where nothing waits, one in all.
    """
    # Most batches find their parts in order: then nothing waits, and no key has to be looked for.
    cursor.execute(f"SELECT EXISTS (SELECT FROM freshet.held_tuple WHERE pipeline = %s AND {WAITS})", [pipeline])
    if not keys or cursor.fetchone() == (False,):
        return {}
    rows: list[tuple[str, ...]] = []
    for start in range(0, len(keys), _AT_ONCE):
        cursor.execute(
            f"""
            SELECT event_id, payload, payload_encoding, arrived_at, source_unit, source_position FROM freshet.held_tuple
            WHERE pipeline = %s AND correlation_key = ANY (%s) AND {WAITS}
            ORDER BY batch_no, source_unit, source_position, event_id FOR UPDATE
            """,
            [pipeline, list(keys[start : start + _AT_ONCE])],
        )
        rows += cursor.fetchall()
    by_stream: dict[str, list[tuple[str, ...]]] = {}
    for row in rows:
        by_stream.setdefault(row[0].split(STREAM_SEPARATOR, 1)[0], []).append(row)
    return {
        part.stream: _read(part, read, by_stream[part.stream], batch_no)
        for part, read in zip(table.parts, read_back, strict=True)
        if part.stream in by_stream
    }


def _read(part: PartTable, read_back: ReadBack, rows: Sequence[tuple[str, ...]], batch_no: int) -> WaitingParts:
    tuples, unreadable = read_back.read(held_table(rows), _KEPT)
    encoded, unfit = fitting(of_joined_tuple(tuples, part), part.table, batch_no)
    rejected: dict[str, Rejection] = {}
    for group in (*unreadable, *unfit):
        reasons = storable_reasons(group.reason, group.tuples.num_rows).to_pylist()
        for held_id, reason in zip(group.tuples[HELD_ID].to_pylist(), reasons, strict=True):
            rejected[held_id] = Rejection(group.fate, reason)
    return WaitingParts(encoded.tuples, rejected)


def end_waiting(
    cursor: extensions.cursor, pipeline: str, placed: Sequence[str], rejected: Mapping[str, Rejection]
) -> None:
    """Take parts out of those that wait: they are in a fact now, or rejected for a reason.

    Args:
        cursor: in the transaction that placed them.
        pipeline: its name.
        placed: event ids, as they are held.
        rejected: event id -> its fate, and why.
    """
    if placed:
        cursor.execute(
            "DELETE FROM freshet.held_tuple WHERE pipeline = %s AND event_id = ANY (%s)", [pipeline, list(placed)]
        )
    if rejected:
        cursor.execute(
            """
            UPDATE freshet.held_tuple AS h SET place = r.place, fate = r.fate, reason = r.reason
            FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]) AS r (event_id, place, fate, reason)
            WHERE h.pipeline = %s AND h.event_id = r.event_id
            """,
            [
                list(rejected),
                [why.fate.place for why in rejected.values()],
                [why.fate.name for why in rejected.values()],
                [why.reason for why in rejected.values()],
                pipeline,
            ],
        )
