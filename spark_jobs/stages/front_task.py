"""The first stage of a batch: screens the tuples, probes the front stage of every lookup, loads full hits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.loading.outcome import Held
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.relation_rows import RelationRows
from spark_jobs.source.arrivals import Arrivals, ArrivalsReader
from spark_jobs.source.screening import screen
from spark_jobs.stages.batch_context import BatchContext, FrontStagePlan, HotTuples, LookupPlan, TaskReport
from spark_jobs.stages.exchange import MISSING, parcels, with_pages
from spark_jobs.stages.fetching import hold_unmatched, look_up, stream_keys
from spark_jobs.stages.impossible_keys import screen_keys
from spark_jobs.stages.loading import TaskLoading

ArrowTask = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def front_task(context: BatchContext, read: ArrivalsReader, report: Callable[[TaskReport], Any]) -> ArrowTask:
    """The function that `mapInArrow` runs on the source's tuples.

    It hands on the tuples that miss at least one front stage, in the parcels of `exchange`.

    Args:
        context: the batch.
        read: makes stream tuples of what Spark hands to the task.
        report: takes the task's report when it has ended.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _FrontTask(context, report).run(read(batches))

    return run


class _FrontTask:
    def __init__(self, context: BatchContext, report: Callable[[TaskReport], Any]) -> None:
        self._context = context
        self._send = report
        self._started = time.perf_counter()
        self._loading = TaskLoading(context)
        self._fronts = [_Front(plan, front) for plan, front in zip(context.lookups, context.fronts, strict=True)]
        self._counts: Counter[str] = Counter()
        self._join_seconds = 0.0

    def run(self, arrivals: Iterator[Arrivals]) -> Iterator[pa.RecordBatch]:
        for arrived, rejected in arrivals:
            started = time.perf_counter()
            facts, held, waiting = self._join(arrived)
            self._join_seconds += time.perf_counter() - started
            self._loading.add(facts, rejected + held)
            if waiting is not None:
                yield from parcels(waiting, self._context)
        self._loading.finish()
        seconds = {
            "join": self._join_seconds,
            "load": self._loading.seconds,
            "total": time.perf_counter() - self._started,
        }
        hits = {front.plan.position: front.hits for front in self._fronts if front.hits is not None}
        self._send(TaskReport("front", -1, seconds, dict(self._counts), hits))

    def _join(self, arrived: pa.Table) -> tuple[pa.Table, list[Held], pa.Table | None]:
        """Facts, held tuples, and tuples that wait for a back stage."""
        tuples, held = screen(arrived, self._context.event)
        event_time = self._context.event.event_time
        keys = [stream_keys(tuples, front.plan) for front in self._fronts]
        possible, rejected = screen_keys(tuples, keys, self._context.lookups, event_time)
        if rejected:
            held += rejected
            tuples, keys = tuples.filter(pa.array(possible)), [key.take(np.flatnonzero(possible)) for key in keys]
        count = tuples.num_rows
        self._counts["arrived"] += arrived.num_rows
        missing = np.zeros(count, np.int64)
        settled = np.zeros(count, bool)
        joined = tuples
        times = tuples[event_time]
        for front, key in zip(self._fronts, keys, strict=True):
            plan = front.plan
            slots, rows = front.probe(key)
            self._counts[f"probes.{plan.position}"] += count
            self._counts[f"hits.{plan.position}"] += int(np.count_nonzero(slots >= 0))
            missing[(slots < 0) & key.valid] |= plan.bit
            looked_up = look_up(rows, slots, ~key.valid, plan, times, event_time)
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

    def __init__(self, plan: LookupPlan, front: FrontStagePlan) -> None:
        self.plan = plan
        self._hot: HotTuples | None = front.hot.value() if front.hot is not None else None
        self.hits: NDArray[np.int64] | None = None
        if self._hot is not None and front.count_hits:
            self.hits = np.zeros(self._hot.keys.slot_count, np.int64)

    def probe(self, keys: KeyColumns) -> tuple[NDArray[np.int64], RelationRows]:
        """Slot of each key, -1 where it is not hot, and the tuples of R in the slots."""
        if self._hot is None:
            return np.full(len(keys), -1, np.int64), RelationRows.empty(self.plan.spec)
        slots = self._hot.keys.probe(keys.codes)
        slots[~keys.valid] = -1
        if keys.encoded is not None:
            # Two keys may share a hash code; the keys themselves decide.
            hits = np.flatnonzero(slots >= 0)
            same = keys.equals(hits, self._hot.rows.keys, slots[hits])
            slots[hits[~same]] = -1
        if self.hits is not None:
            self.hits += np.bincount(slots[slots >= 0], minlength=len(self.hits))
        return slots, self._hot.rows
