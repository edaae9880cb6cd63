"""Loading parts into the open batch of an accumulating fact: one transaction a chunk of keys."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import extensions

from spark_jobs.columns.event_id import MOST_CHARACTERS, event_id_texts
from spark_jobs.control.fencing import session_name
from spark_jobs.definition.fates import PLACES, WAITING
from spark_jobs.definition.stream_tuple import ARRIVED_AT, EventColumns, LoadCounts
from spark_jobs.loading.accumulation.arrived_parts import ArrivedParts, PartsBeside
from spark_jobs.loading.accumulation.parts import KeyedParts, StreamParts, of_stream
from spark_jobs.loading.accumulation.placing import Placement, new_keys, place
from spark_jobs.loading.accumulation.waiting_parts import ReadBack, WaitingParts, end_waiting, waiting_parts
from spark_jobs.loading.chunk import fitting
from spark_jobs.loading.fact_storage import StorageMode
from spark_jobs.loading.held_rows import HeldRows
from spark_jobs.loading.loader import WorkerSession, session_of
from spark_jobs.loading.outcome import Held, HeldStream, Outcome
from spark_jobs.loading.payload import HELD_ID
from spark_jobs.loading.stream_batch import begin_loading, latencies
from spark_jobs.sketches.id_sketch import IdSketch
from spark_jobs.warehouse.fact_table import FactColumn, FactTable
from spark_jobs.warehouse.part_table import AccumulatingTable, PartTable


@dataclass(frozen=True)
class AccumulatingBatch:
    """The open batch of a pipeline whose facts accumulate, as the destination of its tasks' loads.

    Attributes:
        event: the pipeline's event columns: those of joined tuples.
        table: its fact table.
        read_back: of each stream, how parts that have waited are read.
        epoch: the epoch of the driver that the load belongs to.
        batch_no: the open batch.
        careful: whether some of the parts may be stored already: a replayed batch.
        units: what its ranges lie in, by their numbers (`_range`): the files.
        beside: in a task, its parts that are to be loaded with the rows of their keys.
    """

    event: EventColumns
    table: AccumulatingTable
    read_back: tuple[ReadBack, ...]
    epoch: int
    batch_no: int
    careful: bool = False
    units: tuple[str, ...] = ()
    beside: PartsBeside | None = None

    @property
    def fact(self) -> FactTable:
        """The pipeline's fact table."""
        return self.table.fact

    @property
    def compares_ids(self) -> bool:
        """Several events make a row: what became of each stream's is counted, and not compared by id."""
        return False

    def session(self, url: str, patience: timedelta) -> WorkerSession:
        """This thread's session for the pipeline and epoch."""
        return session_of(url, self.event.pipeline, self.epoch, session_name("load", self.event.pipeline), patience)

    def transaction(self, part: Outcome) -> AccumulatingTransaction:
        """What stores parts that make rows, for which the lookups have been made, with those beside; and held tuples.

        Held tuples without a stream are parts that make rows, too.
        """
        maker = self.table.maker
        held: dict[str, list[Held]] = {}
        for group in part.held:
            if group.stream is None:
                held.setdefault(maker.stream, []).append(replace(group, tuples=of_stream(group.tuples, maker)))
            else:
                held.setdefault(group.stream.name, []).append(group)
        tuples = {}
        if part.facts is not None:
            keys = event_id_texts(part.facts, maker.table.key)
            tuples = {**({} if self.beside is None else self.beside.take(keys)), maker.stream: part.facts}
        return self.placing(ArrivedParts(tuples, held))

    def placing(self, arrived: ArrivedParts) -> AccumulatingTransaction:
        """What stores some parts, with all prepared that can be before it begins."""
        return AccumulatingTransaction(self, arrived)

    def __str__(self) -> str:
        return f"batch {self.batch_no} of pipeline {self.event.pipeline}"


class PartCounts(NamedTuple):
    """What became of the parts of one stream in a transaction.

    Attributes:
        facts: rows that they made.
        joined: parts that came into a row.
        shed, unmatched, rejected: parts that are held now; less those that were held before.
        duplicates: parts that were stored already.
    """

    facts: int = 0
    joined: int = 0
    shed: int = 0
    unmatched: int = 0
    rejected: int = 0
    duplicates: int = 0


class _Prepared(NamedTuple):
    """Parts of one stream: those that fit the table, and rows of those that are held anyway."""

    tuples: pa.Table
    held: HeldRows
    arrived: int


class AccumulatingTransaction:
    """Stores some parts, and those that have waited for the rows that are made of them.

    Args:
        batch: where to.
        arrived: what.
    """

    def __init__(self, batch: AccumulatingBatch, arrived: ArrivedParts) -> None:
        self._batch = batch
        self._part_ids = [str(uuid4()) for _ in batch.table.parts]
        self._prepared = [self._prepare(part, arrived) for part in batch.table.parts]

    def _prepare(self, part: PartTable, arrived: ArrivedParts) -> _Prepared:
        groups = list(arrived.held.get(part.stream, ()))
        count = sum(group.tuples.num_rows for group in groups)
        tuples = empty_parts(part)
        if part.stream in arrived.tuples:
            count += arrived.tuples[part.stream].num_rows
            encoded, unfit = fitting(arrived.tuples[part.stream], part.table, self._batch.batch_no)
            tuples = encoded.tuples
            groups += [replace(group, tuples=of_stream(group.tuples, part)) for group in unfit]
        return _Prepared(tuples, held_parts(groups, part, self._batch), count)

    @property
    def ids(self) -> IdSketch:
        """None: they are not compared."""
        return IdSketch()

    def store(self, session: WorkerSession, mode: StorageMode) -> LoadCounts:
        """Store the parts, all or nothing.

        Raises:
            WriterFencedError: a newer driver has taken over, or the batch is closed. Nothing was stored.
            psycopg2.Error: PostgreSQL raised an error; nothing was stored, unless the connection was lost.
        """
        batch = self._batch
        connection = session.connection()
        with connection, connection.cursor() as cursor:
            begin_loading(cursor, batch.event.pipeline, batch.epoch, batch.batch_no)
            if mode is StorageMode.TUPLE_BY_TUPLE:
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # at the commit it would be too late to blame a part
            arrived = [
                self._not_held(cursor, session, part, prepared.tuples)
                for part, prepared in zip(batch.table.parts, self._prepared, strict=True)
            ]
            keyed = KeyedParts([StreamParts(*each) for each in zip(batch.table.parts, arrived, strict=True)])
            new = new_keys(cursor, batch.table, keyed, mode)
            keys = keyed.keys.take(pa.array(new))
            waiting = waiting_parts(
                cursor, batch.table, batch.read_back, batch.event.pipeline, keys.to_pylist(), batch.batch_no
            )
            if waiting:
                keyed = with_waiting(keyed, waiting)
                new = keyed.numbers_of(keys)
            placements = place(cursor, batch.table, keyed, new, mode, batch.batch_no)
            settled = settle_waiting(cursor, batch.event.pipeline, keyed, placements, waiting)
            counts = []
            for each, placement, prepared, change in zip(
                keyed.streams, placements, self._prepared, settled, strict=True
            ):
                counts.append(self._hold(cursor, session, each, placement, prepared, change))
            for part_id, each, placement, count in zip(self._part_ids, keyed.streams, placements, counts, strict=True):
                fresh = placement.joined.copy()
                fresh[: each.waited] = False  # the time that they have waited says nothing of how quick we are
                joined = each.tuples.filter(pa.array(fresh))
                record_parts(cursor, batch.batch_no, part_id, each.part, count, joined, session.commit_seconds)
            committing = time.perf_counter()
        session.commit_seconds = time.perf_counter() - committing
        return _sum_of(counts)

    def recorded(self, session: WorkerSession) -> LoadCounts | None:
        """The counts of a transaction if it was committed although the connection was lost; else None."""
        connection = session.connection()
        with connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT facts, joined, shed, unmatched, rejected, duplicates FROM freshet.batch_part "
                "WHERE part_id = ANY (%s::uuid[])",
                [self._part_ids],
            )
            found = [PartCounts(*row) for row in cursor.fetchall()]
        return _sum_of(found) if found else None

    def _not_held(
        self, cursor: extensions.cursor, session: WorkerSession, part: PartTable, tuples: pa.Table
    ) -> pa.Table:
        """The parts that no earlier batch holds, or held until retention deleted them."""
        held = session.held_earlier.among_stream(cursor, tuples, part.event_id, part.stream, self._batch.batch_no)
        return tuples.filter(pa.array(~held)) if held.any() else tuples

    def _hold(
        self,
        cursor: extensions.cursor,
        session: WorkerSession,
        parts: StreamParts,
        placement: Placement,
        prepared: _Prepared,
        settled: PartCounts,
    ) -> PartCounts:
        """Hold the parts of a stream that have not got into a row, and count what became of all."""
        batch, waited = self._batch, parts.waited
        awaited = f"its {batch.table.required} part is not there yet"
        groups = [Held(WAITING, awaited, None, parts.tuples.filter(pa.array(placement.waits)))]
        rejected = {number: why for number, why in placement.rejected.items() if number >= waited}
        for fate in {why.fate for why in rejected.values()}:
            numbers = [number for number, why in rejected.items() if why.fate is fate]
            reasons = pa.array([rejected[number].reason for number in numbers], pa.string())
            groups.append(Held(fate, reasons, None, parts.tuples.take(pa.array(numbers, pa.int64()))))
        groups = [replace(group, tuples=of_stream(group.tuples, parts.part)) for group in groups]
        held = prepared.held
        if len(held):
            held = held.without(session.held_earlier.among_rows(cursor, held, batch.batch_no))
        held = held.joined(held_parts(groups, parts.part, batch))
        placed = held.without(~held.store(cursor)).places
        joined = int(np.count_nonzero(placement.joined[waited:]))
        return PartCounts(
            facts=placement.made,
            joined=joined + settled.joined,
            duplicates=prepared.arrived - joined - placed.total(),
            **{place: placed[place] + getattr(settled, place) for place in PLACES},
        )


def _sum_of(counts: Sequence[PartCounts]) -> LoadCounts:
    """As the loader takes them: a part that came into a row is a fact for it."""
    return LoadCounts(
        sum(count.joined for count in counts),
        sum(count.shed for count in counts),
        sum(count.unmatched for count in counts),
        sum(count.rejected for count in counts),
        sum(count.duplicates for count in counts),
    )


def empty_parts(part: PartTable) -> pa.Table:
    """No parts of a stream, with all columns that placing them needs."""
    types = {column.source: column.source_type for column in (*part.table.columns, *part.event_id)}
    types |= {part.event_time: pa.timestamp("us", tz="UTC"), ARRIVED_AT: pa.timestamp("us", tz="UTC")}
    return pa.table({name: pa.array([], kind) for name, kind in types.items()})


def held_parts(groups: Sequence[Held], part: PartTable, batch: AccumulatingBatch) -> HeldRows:
    """Rows for groups of a stream's tuples, with the keys of the rows that they belong to.

    Args:
        groups: tuples as the stream's source gives them.
        part: what they would fill.
        batch: holds them.
    """
    own = held_stream(part)
    groups = [replace(group, stream=own) for group in groups if group.tuples.num_rows]
    rows = HeldRows.build(groups, batch.event, batch.fact.key, batch.batch_no, batch.units)
    key = part.named_in_stream(part.table.key)
    keys = [_keys(group, key) for group in groups]
    return rows.with_keys(pa.chunked_array(keys, pa.large_string()))


def held_stream(part: PartTable) -> HeldStream:
    """A stream as its tuples are held: event ids look the same there and in the fact table."""
    return HeldStream(part.stream, part.event, part.named_in_stream(part.event_id))


def _keys(group: Held, key: Sequence[FactColumn]) -> pa.Array:
    """Keys of tuples as freshet.held_tuple has them; nulls where they are not known, or too long."""
    if not group.identified:
        return pa.nulls(group.tuples.num_rows, pa.large_string())
    texts = event_id_texts(group.tuples, key)
    return pc.if_else(pc.less_equal(pc.binary_length(texts), MOST_CHARACTERS), texts, None)


def with_waiting(keyed: KeyedParts, waiting: dict[str, WaitingParts]) -> KeyedParts:
    """The parts, and before them those that have waited."""
    streams = []
    for each in keyed.streams:
        found = waiting.get(each.part.stream)
        if found is None:
            streams.append(each)
            continue
        tuples = pa.concat_tables([found.tuples, each.tuples], promote_options="default")
        streams.append(StreamParts(each.part, tuples, found.tuples.num_rows))
    return KeyedParts(streams)


def settle_waiting(
    cursor: extensions.cursor,
    pipeline: str,
    keyed: KeyedParts,
    placements: Sequence[Placement],
    waiting: dict[str, WaitingParts],
) -> list[PartCounts]:
    """Take those that have waited, and were placed, out of the held tuples; the changes of each stream's counts."""
    changes = []
    for each, placement in zip(keyed.streams, placements, strict=True):
        found = waiting.get(each.part.stream)
        if found is None:
            changes.append(PartCounts())
            continue
        ids = found.tuples[HELD_ID].to_pylist()
        rejected = found.rejected | {ids[n]: why for n, why in placement.rejected.items() if n < each.waited}
        still = placement.waits[: each.waited]
        gone = [ids[n] for n in np.flatnonzero(~still).tolist() if ids[n] not in rejected]
        end_waiting(cursor, pipeline, gone, rejected)
        joined = int(np.count_nonzero(placement.joined[: each.waited]))
        changes.append(PartCounts(joined=joined, unmatched=-len(gone) - len(rejected), rejected=len(rejected)))
    return changes


def record_parts(
    cursor: extensions.cursor,
    batch_no: int,
    part_id: str,
    part: PartTable,
    counts: PartCounts,
    joined: pa.Table,
    commit_seconds: float,
) -> None:
    """Write what a transaction did with the parts of one stream. The commit is taken to last as long as the last."""
    histograms = [latencies(joined, column, commit_seconds) for column in (part.event_time, ARRIVED_AT)]
    cursor.execute(
        "INSERT INTO freshet.batch_part (part_id, batch_no, stream, facts, joined, shed, unmatched, rejected, "
        "duplicates, event_latency, arrival_latency) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        [part_id, batch_no, part.stream, *counts, *histograms],
    )
