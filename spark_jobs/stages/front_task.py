"""The first stage of a batch: reads and screens the tuples, probes the front stages, loads full hits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.errors import SourceRangeChangedError, UnreadableFileError
from spark_jobs.loading.held_rows import identified
from spark_jobs.loading.outcome import Held
from spark_jobs.lookup.front_stage import FrontStage
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
        self._fronts = [FrontStage(plan, front, context.warehouse_url) for plan, front in fronts]
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
        tuples = self._noted(arrivals)
        started = time.perf_counter()
        facts, held, waiting = self._join(tuples)
        self._join_seconds += time.perf_counter() - started
        self._counts["ignored"] += arrivals.ignored
        self._loading.add(facts, arrivals.rejected + held)
        if waiting is not None:
            yield from parcels(waiting, self._context)

    def _noted(self, arrivals: Arrivals) -> pa.Table:
        """Note the event ids as they were read, before anything is done with them; the tuples with their hash codes."""
        destination = self._context.destination
        if not destination.compares_ids:
            return arrivals.tuples
        tuples, ids = identified(arrivals.tuples, arrivals.rejected, destination.event, destination.fact.key)
        self._loading.unsettled += ids
        return tuples

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
