"""The first stage of a batch: reads and screens the tuples, probes the front stages, loads full hits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import single_array
from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.errors import SourceRangeChangedError, UnreadableFileError
from spark_jobs.loading.held_rows import HeldRows, identity_hashes
from spark_jobs.loading.outcome import Held
from spark_jobs.lookup.changes.unnoticed import ChangedKeys, WholeRelation
from spark_jobs.lookup.hot_keys.hot_tuples import HotTuples
from spark_jobs.lookup.hot_keys.publishing import FrontStagePlan
from spark_jobs.lookup.planning.lookup_plan import LookupPlan
from spark_jobs.lookup.relation.reading_connection import reading_connection
from spark_jobs.lookup.relation.relation_rows import RelationRows, fetched_at
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.stages.batch_context import BatchContext, PieceEnd, TaskReport
from spark_jobs.stages.exchange import MISSING, Parcel, parcels, with_pages
from spark_jobs.stages.fetching import hold_unmatched, look_up
from spark_jobs.stages.screening import screen, screen_keys
from spark_jobs.stages.task_loading import TaskLoading, partition_number

Read = Callable[[Any], Iterator[Arrivals]]
"""Reads one piece of a task's input."""


def front_task(
    context: BatchContext, pieces: Iterable[Hashable], read: Read, report: Callable[[TaskReport], Any]
) -> Iterator[Parcel]:
    """Take the tuples of some pieces through the front stage, and load those that are complete.

    A piece that can't be read is reported as unreadable, and nothing of it is loaded; if it changes while it is read,
    what was read until then may be.

    Args:
        context: the batch.
        pieces: what the task has to read.
        read: reads a piece.
        report: takes the task's report when it has ended.

    Returns:
        the tuples that miss at least one front stage.
    """
    return _FrontTask(context, report).run(pieces, read)


class _FrontTask:
    def __init__(self, context: BatchContext, report: Callable[[TaskReport], Any]) -> None:
        self._context = context
        self._send = report
        self._started = time.perf_counter()
        self._loading = TaskLoading(context)
        fronts = zip(context.lookups, context.fronts, strict=True)
        self._fronts = [_Front(plan, front, context.warehouse_url) for plan, front in fronts]
        self._counts: Counter[str] = Counter()
        self._join_seconds = 0.0

    def run(self, pieces: Iterable[Hashable], read: Read) -> Iterator[Parcel]:
        ends = []
        for piece in pieces:
            records, unreadable, mark = 0, None, None
            try:
                for arrivals in read(piece):
                    records += arrivals.records
                    mark = arrivals.mark
                    yield from self._settle(arrivals)
            except (UnreadableFileError, SourceRangeChangedError) as error:
                unreadable = str(error)
            ends.append(PieceEnd(piece, records, unreadable, mark))
        self._loading.finish()
        seconds = {
            "join": self._join_seconds,
            "load": self._loading.seconds,
            "total": time.perf_counter() - self._started,
        }
        hits = {front.plan.position: front.hits for front in self._fronts if front.hits is not None}
        self._send(
            TaskReport(
                stage="front",
                partition=partition_number(),
                seconds=seconds,
                counts=dict(self._counts),
                pieces=ends,
                hits=hits,
                unsettled=self._loading.unsettled.to_bytes(),
            )
        )

    def _settle(self, arrivals: Arrivals) -> Iterator[Parcel]:
        """Load what is complete; what is not is the result."""
        started = time.perf_counter()
        facts, held, waiting = self._join(arrivals.tuples)
        self._join_seconds += time.perf_counter() - started
        self._counts["ignored"] += arrivals.ignored
        self._sketch(arrivals)
        self._loading.add(facts, arrivals.rejected + held)
        if waiting is not None:
            yield from parcels(waiting, self._context)

    def _sketch(self, arrivals: Arrivals) -> None:
        """Note the event ids as they were read, before anything is done with them."""
        destination, ids = self._context.destination, self._loading.unsettled
        if not destination.compares_ids:
            return
        event, key = destination.event, destination.fact.key
        ids.add(identity_hashes(arrivals.tuples, event, key))
        ids.add(HeldRows.build(arrivals.rejected, event, key, 0).event_hashes)

    def _join(self, arrived: pa.Table) -> tuple[pa.Table, list[Held], pa.Table | None]:
        """Facts, held tuples, and tuples that wait for a back stage."""
        tuples, held = screen(arrived, self._context.event)
        event_time = self._context.event.event_time
        keys = [front.plan.spec.stream_keys(tuples) for front in self._fronts]
        possible, rejected = screen_keys(tuples, keys, self._context.lookups, event_time)
        if rejected:
            held += rejected
            tuples, keys = tuples.filter(pa.array(possible)), [key.take(np.flatnonzero(possible)) for key in keys]
        count = tuples.num_rows
        missing = np.zeros(count, np.int64)
        settled = np.zeros(count, bool)
        joined = tuples
        times = tuples[event_time]
        for front, key in zip(self._fronts, keys, strict=True):
            plan = front.plan
            rows, fetched, absent = front.probe(key, times)
            self._counts[f"probes.{plan.position}"] += count
            self._counts[f"hits.{plan.position}"] += int(np.count_nonzero(rows >= 0))
            missing[(rows < 0) & ~absent] |= plan.bit
            looked_up = look_up(fetched, rows, absent, plan, times, event_time)
            for where, reason in looked_up.unmatched:
                held.append(hold_unmatched(tuples.filter(pa.array(where & ~settled)), plan, reason))
                settled |= where
            for name in looked_up.columns.column_names:
                joined = joined.append_column(name, looked_up.columns[name])
        ready = (missing == 0) & ~settled
        if ready.all():
            return joined, held, None
        facts = joined.filter(pa.array(ready))
        rest = np.flatnonzero(~ready & ~settled)
        if not rest.size:
            return facts, held, None
        waiting = joined.take(pa.array(rest)).append_column(MISSING, pa.array(missing[rest]))
        return facts, held, with_pages(waiting, [key.take(rest) for key in keys], self._context)


class _Front:
    """The front stage of one lookup, as a task uses it: read-only, but for the counts of hits."""

    def __init__(self, plan: LookupPlan, front: FrontStagePlan, warehouse_url: str) -> None:
        self.plan = plan
        self._url = warehouse_url
        self._hot = front.tuples()
        self._whole = front.whole
        self._changed: ChangedKeys | None = None  # of R since it was read whole; None: not asked for yet
        self.hits: NDArray[np.int64] | None = None
        if isinstance(self._hot, HotTuples) and front.count_hits:
            self.hits = np.zeros(self._hot.hot_set.slot_count, np.int64)

    def probe(self, keys: KeyColumns, times: pa.ChunkedArray) -> tuple[NDArray[np.int64], pa.Table, NDArray[np.bool_]]:
        """Look stream tuples' keys up, shape (n,); times, shape (n,), are their events'.

        Returns:
            row of the hot tuple of each key, -1 where it is not hot; these tuples; and where R is known to have none.
        """
        if self._hot is None:
            return np.full(len(keys), -1, np.int64), RelationRows.empty(self.plan.spec).columns, ~keys.valid
        slots, missing = self._hot.find(keys)
        if self.hits is not None:
            self.hits += np.bincount(slots[slots >= 0], minlength=len(self.hits))
        absent = self._absent(keys, missing)
        columns, rows = self._hot.fetched(slots)
        if self._whole is not None and self.plan.spec.validity is not None:
            self._leave_versionless(columns, rows, keys, times, self._whole)
        return rows, columns, absent

    def _leave_versionless(
        self,
        columns: pa.Table,
        rows: NDArray[np.int64],
        keys: KeyColumns,
        times: pa.ChunkedArray,
        whole: WholeRelation,
    ) -> None:
        """Make misses of hits that have no version valid at their time, and may have one that is not hot yet."""
        _, valid = fetched_at(columns, rows, single_array(times))
        versionless = np.flatnonzero((rows >= 0) & ~valid)
        if versionless.size:
            changed = self._changed_since(whole).contains(keys.codes[versionless])
            rows[versionless[changed]] = -1

    def _absent(self, keys: KeyColumns, missing: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of the keys R does not have now: those that it never can, and missing ones where all of R is hot.

        A batch's tuples arrived before it was planned, so a key that came into R before one of them did is found
        here, too: in the hot set, or among the keys that have changed since.
        """
        absent = ~keys.valid
        unknown = np.flatnonzero(missing & keys.valid)
        if self._whole is not None and unknown.size:
            absent[unknown] = ~self._changed_since(self._whole).contains(keys.codes[unknown])
        return absent

    def _changed_since(self, whole: WholeRelation) -> ChangedKeys:
        if self._changed is None:
            self._changed = self._changed_keys(whole)
        return self._changed

    def _changed_keys(self, whole: WholeRelation) -> ChangedKeys:
        changed = ChangedKeys()
        changes = reading_connection(self._url).run(lambda reading: whole.changes(reading, self.plan.spec))
        if changes is None:
            changed.add_all()
        else:
            changed.add(changes.keys.codes)
        return changed
