"""One transaction that stores a chunk: facts, held tuples, and the part of the batch that counts them."""

from __future__ import annotations

import time
from typing import NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg2 import extensions

from spark_jobs.errors import WriterFencedError
from spark_jobs.warehouse.chunk import Chunk
from spark_jobs.warehouse.copy_encoding.rows import plain_array
from spark_jobs.warehouse.event_columns import ARRIVED_AT, EventColumns
from spark_jobs.warehouse.event_times import utc_times
from spark_jobs.warehouse.fact_storage import Way, store
from spark_jobs.warehouse.fact_table import FactTable
from spark_jobs.warehouse.held_rows import HeldRows
from spark_jobs.warehouse.latency import histogram
from spark_jobs.warehouse.ledger import check_epoch
from spark_jobs.warehouse.outcome import Held
from spark_jobs.warehouse.staging import stored_event_ids
from spark_jobs.warehouse.worker_session import WorkerSession


class LoadCounts(NamedTuple):
    """What became of the tuples that were loaded.

    Attributes:
        duplicates: tuples whose event id was stored already; they are stored nowhere.
    """

    facts: int = 0
    shed: int = 0
    unmatched: int = 0
    rejected: int = 0
    duplicates: int = 0

    def __add__(self, other: object) -> LoadCounts:
        """Sums, count by count."""
        if not isinstance(other, LoadCounts):
            return NotImplemented
        return LoadCounts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class Destination(NamedTuple):
    """Where a load goes.

    Attributes:
        event: the pipeline's event columns.
        fact: its fact table.
        epoch: the epoch of the driver that the load belongs to.
        batch_no: the open batch.
    """

    event: EventColumns
    fact: FactTable
    epoch: int
    batch_no: int


def load_chunk(session: WorkerSession, destination: Destination, chunk: Chunk, part_id: UUID, way: Way) -> LoadCounts:
    """Store a chunk, all or nothing.

    Args:
        session: the worker's.
        destination: where to.
        chunk: what.
        part_id: identifies the transaction; see `recorded_counts`.
        way: how to store facts.

    Raises:
        WriterFencedError: a newer driver has taken over, or the batch is closed. Nothing was stored.
        psycopg2.Error: PostgreSQL raised an error; nothing was stored, unless the connection was lost.
    """
    connection = session.connection()
    with connection, connection.cursor() as cursor:
        _check_open(cursor, destination)
        if way is Way.BY_HALVES:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # at the commit it would be too late to blame a tuple
        if chunk.facts is not None:
            held_before = session.held_earlier.among(cursor, chunk.facts.tuples, destination.fact, destination.batch_no)
            chunk = chunk.where(~held_before, destination.fact)
        facts, held = _store_facts(cursor, destination, chunk, way)
        if way is not Way.OPTIMISTIC and len(held):
            # The ledger does this again when it closes the batch, which is enough where duplicates are rare.
            held = held.without(stored_event_ids(cursor, destination.fact, held.event_ids))
        placed = held.store(cursor)
        stored = facts.num_rows + placed.total()
        counts = LoadCounts(
            facts.num_rows, placed["shed"], placed["unmatched"], placed["rejected"], chunk.tuples - stored
        )
        _record(cursor, destination, part_id, counts, facts, session.commit_seconds)
        committing = time.perf_counter()
    session.commit_seconds = time.perf_counter() - committing
    return counts


def recorded_counts(session: WorkerSession, part_id: UUID) -> LoadCounts | None:
    """The counts of a transaction whose end we did not hear of; None if it was not committed."""
    connection = session.connection()
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT facts, shed, unmatched, rejected, duplicates FROM freshet.batch_part WHERE part_id = %s",
            [str(part_id)],
        )
        row = cursor.fetchone()
    return None if row is None else LoadCounts(*row)


def _check_open(cursor: extensions.cursor, destination: Destination) -> None:
    """Keep newer drivers, and whoever would close the batch, waiting until the end of the transaction."""
    cursor.execute(
        "SELECT p.epoch, b.state FROM freshet.pipeline p JOIN freshet.batch b ON b.pipeline = p.name "
        "WHERE p.name = %s AND b.batch_no = %s FOR KEY SHARE",
        [destination.event.pipeline, destination.batch_no],
    )
    row = cursor.fetchone()
    if row is None:
        raise WriterFencedError(
            f"Pipeline {destination.event.pipeline} has no batch {destination.batch_no} in this warehouse."
        )
    epoch, state = row
    check_epoch(epoch, destination.event.pipeline, destination.epoch)
    if state != "started":
        raise WriterFencedError(
            f"Batch {destination.batch_no} of pipeline {destination.event.pipeline} is {state}; it takes no more."
        )


def _store_facts(
    cursor: extensions.cursor, destination: Destination, chunk: Chunk, way: Way
) -> tuple[pa.Table, HeldRows]:
    """The facts that are stored now, and all tuples to hold."""
    if chunk.facts is None:
        return pa.table({}), chunk.held
    tuples = chunk.facts.tuples
    new, refused = store(cursor, destination.fact, tuples, chunk.facts.rows, way)
    held = chunk.held
    if refused:
        rejected = Held(
            "rejected",
            pa.array(list(refused.values()), pa.string()),
            None,
            tuples.take(pa.array(list(refused), pa.int64())),
        )
        held = held.joined(HeldRows.build([rejected], destination.event, destination.fact.key, destination.batch_no))
    return tuples if new.all() else tuples.filter(pa.array(new)), held


def _record(
    cursor: extensions.cursor,
    destination: Destination,
    part_id: UUID,
    counts: LoadCounts,
    facts: pa.Table,
    commit_seconds: float,
) -> None:
    """Write the batch's part. The commit, which is still to come, is taken to last as long as the last one."""
    now = int((time.time() + commit_seconds) * 1e6)
    histograms = []
    for column in (destination.event.event_time, ARRIVED_AT):
        latencies = now - _microseconds(facts[column]) if facts.num_rows else np.empty(0, np.int64)
        histograms.append(histogram(latencies).tolist())
    cursor.execute(
        "INSERT INTO freshet.batch_part (part_id, batch_no, facts, shed, unmatched, rejected, duplicates, "
        "event_latency, arrival_latency) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        [str(part_id), destination.batch_no, *counts, *histograms],
    )


def _microseconds(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Known times since 1970."""
    return utc_times(plain_array(column)).drop_null().cast(pa.int64()).to_numpy()
