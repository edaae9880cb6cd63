"""Settles, when a batch is closed, what its transactions could not see of each other.

Two transactions that run at the same time, say of a task and of its second try, don't see each other's parts: one
holds a part because its row is not there, while the other makes that row. So the parts that a batch holds are compared
with the rows once more, when none of its transactions is under way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from uuid import uuid4

import numpy as np
import pyarrow as pa
from psycopg2 import extensions

from spark_jobs.columns.event_id import parse_event_ids
from spark_jobs.definition.correlation import STREAM_SEPARATOR
from spark_jobs.loading.accumulation.accumulating_batch import (
    PartCounts,
    empty_parts,
    record_parts,
    settle_waiting,
    with_waiting,
)
from spark_jobs.loading.accumulation.parts import KeyedParts, StreamParts
from spark_jobs.loading.accumulation.placing import place
from spark_jobs.loading.accumulation.row_filling import parts_there
from spark_jobs.loading.accumulation.waiting_parts import WAITS, ReadBack, waiting_parts
from spark_jobs.loading.fact_storage import StorageMode
from spark_jobs.warehouse.fact_staging import stored_event_ids
from spark_jobs.warehouse.part_table import AccumulatingTable, PartTable

_AT_ONCE = 50_000


def settle_held_parts(
    cursor: extensions.cursor, table: AccumulatingTable, read_back: Sequence[ReadBack], pipeline: str, batch_no: int
) -> None:
    """Fill in the parts that a batch holds although their rows are there, and drop those that are in them.

    What it does is counted as another part of the batch.

    Args:
        cursor: in a transaction that keeps the batch's loaders out.
        table: the fact table.
        read_back: of each stream.
        pipeline: its name.
        batch_no: the batch. Costs an index probe for each part that it holds, in bounded memory.
    """
    cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    with cursor.connection.cursor("held_by_batch") as held:
        held.execute(
            f"SELECT event_id, correlation_key, {WAITS} FROM freshet.held_tuple "
            "WHERE pipeline = %s AND batch_no = %s AND correlation_key IS NOT NULL",
            [pipeline, batch_no],
        )
        while rows := held.fetchmany(_AT_ONCE):
            found = stored_event_ids(cursor, table.fact, [key for _, key, _ in rows])
            of_rows = [row for row, is_there in zip(rows, found, strict=True) if is_there]
            _fill_in(cursor, table, read_back, pipeline, batch_no, list({key for _, key, waits in of_rows if waits}))
            for part in table.parts:
                _drop_stored(cursor, part, pipeline, batch_no, [(i, key) for i, key, waits in of_rows if not waits])


def _fill_in(
    cursor: extensions.cursor,
    table: AccumulatingTable,
    read_back: Sequence[ReadBack],
    pipeline: str,
    batch_no: int,
    keys: Sequence[str],
) -> None:
    waiting = waiting_parts(cursor, table, read_back, pipeline, keys, batch_no)
    if not waiting:
        return
    none = KeyedParts([StreamParts(part, empty_parts(part)) for part in table.parts])
    keyed = with_waiting(none, waiting)
    placements = place(cursor, table, keyed, np.empty(0, np.int64), StorageMode.TUPLE_BY_TUPLE, batch_no)
    for part, counts in zip(table.parts, settle_waiting(cursor, pipeline, keyed, placements, waiting), strict=True):
        record_parts(cursor, batch_no, str(uuid4()), part, counts, pa.table({}), 0.0)


def _drop_stored(
    cursor: extensions.cursor, part: PartTable, pipeline: str, batch_no: int, held: Sequence[tuple[str, str]]
) -> None:
    """Delete held parts of a stream (event id, key) that are in their rows: a CHECK has refused them before, say."""
    prefix = f"{part.stream}{STREAM_SEPARATOR}"
    own = [(event_id, key) for event_id, key in held if event_id.startswith(prefix)]
    keys, numbers = parse_event_ids([key for _, key in own], part.table.key)
    there = parts_there(cursor, part, keys)
    stored = [own[numbers[k]][0] for k, text in there.items() if text == own[numbers[k]][0].removeprefix(prefix)]
    if not stored:
        return
    cursor.execute(
        "DELETE FROM freshet.held_tuple WHERE pipeline = %s AND event_id = ANY (%s) RETURNING place",
        [pipeline, stored],
    )
    places = Counter(place for (place,) in cursor.fetchall())
    counts = PartCounts(**{place: -number for place, number in places.items()})
    record_parts(cursor, batch_no, str(uuid4()), part, counts, pa.table({}), 0.0)
