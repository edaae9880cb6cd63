"""Loading into the open batch of a stream: one transaction a chunk, with the part of the batch that counts it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg2 import extensions, sql

from spark_jobs.columns.arrow_buffers import plain_array
from spark_jobs.columns.copy_encoding.numbers_and_times import utc_times
from spark_jobs.columns.event_id import event_id_texts
from spark_jobs.control.fencing import check_epoch, read_locked, session_name
from spark_jobs.definition.fates import REFUSED
from spark_jobs.definition.stream_tuple import ARRIVED_AT, EventColumns, LoadCounts
from spark_jobs.errors import LoadBlockedError, WriterFencedError
from spark_jobs.ledger.id_sketches import MOST_DROPPED
from spark_jobs.ledger.latency import histogram
from spark_jobs.loading.chunk import Chunk, prepare
from spark_jobs.loading.event_hashes import hashes_of
from spark_jobs.loading.fact_storage import StorageMode, store
from spark_jobs.loading.held_rows import HeldRows
from spark_jobs.loading.loader import WorkerSession, session_of
from spark_jobs.loading.outcome import Held, Outcome
from spark_jobs.loading.recent_ids import RECENT_IDS
from spark_jobs.loading.refusals import Refusal
from spark_jobs.sketches.id_sketch import IdSketch
from spark_jobs.warehouse.fact_staging import stored_event_ids
from spark_jobs.warehouse.fact_table import FactColumn, FactTable, has_key


@dataclass(frozen=True)
class StreamBatch:
    """The open batch of a stream, as the destination of its tasks' loads.

    Attributes:
        event: the pipeline's event columns.
        fact: its fact table.
        epoch: the epoch of the driver that the load belongs to.
        batch_no: the open batch.
        careful: whether some of the tuples may be stored already: a replayed batch.
        compares_ids: whether what was read, and is neither stored nor a duplicate, is told as lost. Of joined tuples
            nobody knows what is to be read.
        units: what its ranges lie in, by their numbers (`_range`): the files.
    """

    event: EventColumns
    fact: FactTable
    epoch: int
    batch_no: int
    careful: bool = False
    units: tuple[str, ...] = ()
    compares_ids: bool = True

    def session(self, url: str, patience: timedelta) -> WorkerSession:
        """This thread's session for the pipeline and epoch."""
        return session_of(url, self.event.pipeline, self.epoch, session_name("load", self.event.pipeline), patience)

    def transaction(self, part: Outcome) -> BatchTransaction:
        """What stores a part of an outcome."""
        return BatchTransaction(self, prepare(part, self.event, self.fact, self.batch_no, self.units))

    def __str__(self) -> str:
        return f"batch {self.batch_no} of pipeline {self.event.pipeline}"


class BatchTransaction:
    """Stores a chunk as a part of a batch.

    Args:
        batch: where to.
        chunk: what.
    """

    def __init__(self, batch: StreamBatch, chunk: Chunk) -> None:
        self._batch = batch
        self._chunk = chunk
        self._part_id = str(uuid4())
        self._ids = chunk.ids()

    @property
    def ids(self) -> IdSketch:
        """The event ids of its tuples."""
        return self._ids

    def store(self, session: WorkerSession, mode: StorageMode) -> LoadCounts:
        """Store the chunk, all or nothing.

        Raises:
            WriterFencedError: a newer driver has taken over, or the batch is closed. Nothing was stored.
            psycopg2.Error: PostgreSQL raised an error; nothing was stored, unless the connection was lost.
        """
        batch, chunk, dropped = self._batch, self._chunk, DroppedIds()
        connection = session.connection()
        with connection, connection.cursor() as cursor:
            begin_loading(cursor, batch.event.pipeline, batch.epoch, batch.batch_no)
            if mode is StorageMode.TUPLE_BY_TUPLE:
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # at the commit it would be too late to blame a tuple
            if chunk.facts is not None:
                held_before = session.held_earlier.among(cursor, chunk.facts.tuples, batch.fact, batch.batch_no)
                if held_before.any():
                    dropped.add_tuples(chunk.facts.tuples.filter(pa.array(held_before)), batch.fact.key)
                chunk = chunk.where(~held_before, batch.fact)
            facts, held = _store_facts(cursor, batch, chunk, mode, dropped)
            if len(held):
                held = dropped.without(held, session.held_earlier.among_rows(cursor, held, batch.batch_no))
            if mode >= StorageMode.CAREFUL and len(held):
                # The ledger does this again when it closes the batch, which is enough where duplicates are rare.
                held = dropped.without(held, stored_event_ids(cursor, batch.fact, held.event_ids))
            placed = dropped.without(held, ~held.store(cursor)).places
            stored = facts.num_rows + placed.total()
            counts = LoadCounts.of(facts.num_rows, placed, chunk.tuples - stored)
            _record(cursor, batch, self._part_id, counts, facts, session.commit_seconds, self._ids, dropped)
            committing = time.perf_counter()
        session.commit_seconds = time.perf_counter() - committing
        if chunk.facts is not None:
            RECENT_IDS.add(batch.event.pipeline, chunk.facts.hashes)
        return counts

    def recorded(self, session: WorkerSession) -> LoadCounts | None:
        """The counts of a transaction if it was committed although the connection was lost; else None."""
        connection = session.connection()
        with connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT facts, shed, unmatched, rejected, duplicates FROM freshet.batch_part WHERE part_id = %s",
                [self._part_id],
            )
            row = cursor.fetchone()
        return None if row is None else LoadCounts(*row)


def begin_loading(cursor: extensions.cursor, pipeline: str, driver_epoch: int, batch_no: int) -> None:
    """Begin to load into a batch: newer drivers, and one that would close it, wait until the transaction ends.

    The transaction's commit does not wait for the disk. That of the batch's end does, and with it is safe what was
    committed before. A server that crashes earlier takes the driver's connection along: then the batch, which is open,
    is loaded again by who finds it so.

    Raises:
        WriterFencedError: there is a newer driver already, or the batch is closed.
    """
    query = (
        "SELECT p.epoch, b.state FROM freshet.pipeline p JOIN freshet.batch b ON b.pipeline = p.name "
        "WHERE p.name = %(pipeline)s AND b.batch_no = %(batch_no)s"
    )
    unhurried = "SET LOCAL synchronous_commit TO off; "
    cursor.execute(unhurried + read_locked(query), {"pipeline": pipeline, "batch_no": batch_no})
    row = cursor.fetchone()
    if row is None:
        raise WriterFencedError(f"Pipeline {pipeline} has no batch {batch_no} in this warehouse.")
    epoch, state = row
    check_epoch(epoch, pipeline, driver_epoch)
    if state != "started":
        raise WriterFencedError(f"Batch {batch_no} of pipeline {pipeline} is {state}; it takes no more.")


def _store_facts(
    cursor: extensions.cursor, batch: StreamBatch, chunk: Chunk, mode: StorageMode, dropped: DroppedIds
) -> tuple[pa.Table, HeldRows]:
    """The facts that are stored now, by their times, and all tuples to hold."""
    if chunk.facts is None:
        return pa.table({}), chunk.held
    tuples = chunk.facts.tuples
    new, refused = store(cursor, batch.fact, tuples, chunk.facts.rows, mode, batch.event.pipeline)
    held = chunk.held
    if refused:
        rejected = refused_tuples(tuples, refused)
        held = held.joined(HeldRows.build([rejected], batch.event, batch.fact.key, batch.batch_no, batch.units))
    times = tuples.select([batch.event.event_time, ARRIVED_AT])
    if new.all():
        return times, held
    stored_already = ~new
    stored_already[list(refused)] = False
    dropped.add_tuples(tuples.filter(pa.array(stored_already)), batch.fact.key)
    return times.filter(pa.array(new)), held


def refused_tuples(tuples: pa.Table, refused: Mapping[int, Refusal]) -> Held:
    """Facts that PostgreSQL refused, by their numbers, as rejected tuples with its words."""
    reasons = pa.array([refusal.reason for refusal in refused.values()], pa.string())
    return Held(REFUSED, reasons, None, tuples.take(pa.array(list(refused), pa.int64())))


def _record(
    cursor: extensions.cursor,
    batch: StreamBatch,
    part_id: str,
    counts: LoadCounts,
    facts: pa.Table,
    commit_seconds: float,
    ids: IdSketch,
    dropped: DroppedIds,
) -> None:
    """Write the batch's part. The commit, which is still to come, is taken to last as long as the last one."""
    stored = IdSketch()
    stored += ids
    stored -= dropped.sketch
    # A fact without an arrival was made by time, when nothing more could come: that says nothing of how quick we are.
    arrived = facts.filter(facts[ARRIVED_AT].is_valid()) if facts.num_rows else facts
    histograms = [latencies(arrived, column, commit_seconds) for column in (batch.event.event_time, ARRIVED_AT)]
    # Now that facts have been copied nobody can drop their key until the commit.
    insert = sql.SQL(
        "INSERT INTO freshet.batch_part (part_id, batch_no, facts, shed, unmatched, rejected, duplicates, "
        "event_latency, arrival_latency, sketch, dropped) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) "
        "RETURNING {}"
    ).format(has_key(batch.fact.schema, batch.fact.table, batch.fact.event_id))
    cursor.execute(insert, [part_id, batch.batch_no, *counts, *histograms, stored.to_bytes(), dropped.told])
    if cursor.fetchone() == (False,) and counts.facts:
        raise LoadBlockedError(batch.fact.key_is_gone)


def latencies(facts: pa.Table, column: str, commit_seconds: float) -> list[int]:
    """Histogram of the times from a column's values to the end of a commit that takes `commit_seconds` from now."""
    if not facts.num_rows:
        return histogram(np.empty(0, np.int64)).tolist()
    now = int((time.time() + commit_seconds) * 1e6)
    return histogram(now - _microseconds(facts[column])).tolist()


def _microseconds(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Known times since 1970."""
    return utc_times(plain_array(column)).drop_null().cast(pa.int64()).to_numpy()


class DroppedIds:
    """The event ids of tuples that one transaction did not store, for they are stored already.

    That they are can't be told from sketches. So a loader tells which ids it dropped for that reason, and a validation
    looks for them: for all where they are few, else for a sample.

    Attributes:
        sketch: of all of them.
    """

    def __init__(self) -> None:
        self.sketch = IdSketch()
        self._told: list[tuple[int, str]] = []

    @property
    def told(self) -> list[str]:
        """Ids in their canonical texts; of more than `MOST_DROPPED` those of the least hash codes: a random sample."""
        return [text for _, text in self._told]

    def add_tuples(self, tuples: pa.Table, key: Sequence[FactColumn]) -> None:
        """Take tuples that were to be facts, shape (n,), with their event ids and the hash codes of these. O(n)."""
        if tuples.num_rows:
            hashes = hashes_of(tuples)
            least = self._added(hashes)
            self._tell(hashes[least], event_id_texts(tuples.take(pa.array(least)), key).to_pylist())

    def without(self, rows: HeldRows, dropped: NDArray[np.bool_]) -> HeldRows:
        """Take those of the tuples to hold that are dropped, bool, shape (n,); the others are the result. O(n)."""
        if not dropped.any():
            return rows
        gone = rows.without(~dropped)
        least = self._added(gone.hashes)
        event_ids = gone.event_ids
        self._tell(gone.hashes[least], [event_ids[number] for number in least])
        return rows.without(dropped)

    def _added(self, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add to the sketch; numbers of those that are told, should no others be."""
        self.sketch.add(hashes)
        return np.argsort(hashes, kind="stable")[:MOST_DROPPED]

    def _tell(self, hashes: NDArray[np.int64], texts: Sequence[str]) -> None:
        told = {*self._told, *zip(hashes.tolist(), texts, strict=True)}
        self._told = sorted(told)[:MOST_DROPPED]
