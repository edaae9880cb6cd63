"""A back stage's task: joins the tuples of one range of R by the lookup's algorithm, loads what is then complete."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.definition.fates import SHED, UNMATCHED
from spark_jobs.loading.outcome import Held
from spark_jobs.lookup.back_stage import BackStage, FoundTuples
from spark_jobs.lookup.planning.lookup_plan import LookupPlan
from spark_jobs.lookup.relation.relation_rows import RelationRows
from spark_jobs.stages.batch_context import BatchContext, TaskReport, concatenated
from spark_jobs.stages.exchange import MISSING, Parcel, WaitingTuples, in_joins, parcels
from spark_jobs.stages.fetching import hold_unmatched, look_up
from spark_jobs.stages.task_loading import TaskLoading, partition_number

Report = Callable[[TaskReport], Any]
Offers = tuple[RelationRows, NDArray[np.int64]]
_PARCEL_ROWS = 32_768


def back_task(context: BatchContext, lookup: int, packed: Iterable[bytes], report: Report) -> Iterator[Parcel]:
    """Do one lookup for the tuples of one partition of its exchange, and load those that are then complete.

    Args:
        context: the batch.
        lookup: number of the lookup.
        packed: the parcels of the partition.
        report: takes the task's report when it has ended.

    Returns:
        the tuples that still lack a later lookup.
    """
    for waiting in _BackTask(context, context.lookups[lookup], report).run(packed):
        yield from parcels(waiting, context)


class _BackTask:
    def __init__(self, context: BatchContext, plan: LookupPlan, report: Report) -> None:
        self._context = context
        self._plan = plan
        self._send = report
        self._loading = TaskLoading(context)
        self._join_seconds = 0.0
        self._counts: Counter[str] = Counter()
        self._offers: list[Offers] = []
        self._algorithm: tuple[str, str | None] | None = None

    def run(self, packed: Iterable[bytes]) -> Iterator[pa.Table]:
        """Do the lookup for all tuples that lack it; what still lacks a later one is the result."""
        started = time.perf_counter()
        for waiting in in_joins(packed, self._plan):
            yield from self._settled(waiting)
        if self._algorithm is None:
            return  # nothing has come
        self._loading.finish()
        seconds = {
            "join": self._join_seconds,
            "load": self._loading.seconds,
            "total": time.perf_counter() - started,
        }
        algorithm, reason = self._algorithm
        self._send(
            TaskReport(
                stage="back",
                lookup=self._plan.position,
                partition=partition_number(),
                seconds=seconds,
                counts=dict(self._counts),
                offers=self._most_frequent(),
                algorithm=algorithm,
                reason=reason,
                unsettled=self._loading.unsettled.to_bytes(),
            )
        )

    def _settled(self, waiting: WaitingTuples) -> Iterator[pa.Table]:
        """Join tuples and load those that are complete; the result are those that are not."""
        started = time.perf_counter()
        found = self._joined(waiting)
        self._join_seconds += time.perf_counter() - started
        lacking: list[pa.Table] = []
        for tuples, asking in waiting.parcels():
            started = time.perf_counter()
            settled, held = self._looked_up(tuples, waiting.asking(tuples), found.part(asking))
            complete = settled[MISSING].to_numpy() == 0
            self._join_seconds += time.perf_counter() - started
            self._loading.add(settled.filter(pa.array(complete)), held)
            lacking.append(settled.filter(pa.array(~complete)))
            if sum(part.num_rows for part in lacking) >= _PARCEL_ROWS:
                yield concatenated(lacking)
                lacking = []
        if any(part.num_rows for part in lacking):
            yield concatenated(lacking)

    def _joined(self, waiting: WaitingTuples) -> FoundTuples:
        context = self._context
        back_stage = BackStage(self._plan, context.warehouse_url, context.parts)
        found = back_stage.join(*waiting.keys_and_pages(), context.back_stage_seconds, self._join_seconds)
        self._algorithm = self._algorithm or (found.algorithm, found.reason)
        settled = {UNMATCHED.name: int(found.absent.sum()), SHED.name: int(found.shed.sum())}
        self._counts.update(found.counts | settled)
        if context.fronts[self._plan.position].most_offers and found.relation is not None:
            self._offers.append((found.relation, found.frequencies))
        return found

    def _looked_up(
        self, arrived: pa.Table, asking: NDArray[np.bool_], found: FoundTuples
    ) -> tuple[pa.Table, list[Held]]:
        """The tuples with this lookup's columns, without those that are held."""
        plan, event_time = self._plan, self._context.event.event_time
        tuples = arrived if asking.all() else arrived.filter(pa.array(asking))
        held = []
        left = ~found.shed
        if found.shed.any():
            reason = "the batch's time was spent before a tuple of this key was read"
            held.append(Held(SHED, reason, plan.spec.relation, tuples.filter(pa.array(found.shed))))
        relation = found.relation or RelationRows.empty(plan.spec)
        looked_up = look_up(relation.columns, found.rows, found.absent, plan, tuples[event_time], event_time)
        for where, reason in looked_up.unmatched:
            held.append(hold_unmatched(tuples.filter(pa.array(where)), plan, reason))
            left &= ~where
        fetched = looked_up.columns
        if not left.all():
            tuples, fetched = tuples.filter(pa.array(left)), fetched.filter(pa.array(left))
        joined = self._with_columns(tuples, fetched)
        return joined if asking.all() else concatenated([joined, arrived.filter(pa.array(~asking))]), held

    def _with_columns(self, tuples: pa.Table, fetched: pa.Table) -> pa.Table:
        for name in fetched.column_names:
            tuples = tuples.set_column(tuples.column_names.index(name), name, fetched[name])
        done = tuples[MISSING].to_numpy() & ~self._plan.bit
        return tuples.set_column(tuples.column_names.index(MISSING), MISSING, pa.array(done))

    def _most_frequent(self) -> Offers | None:
        """The tuples of R that were found, for the front stage to choose from: the most frequent, if they are many."""
        if not self._offers:
            return None
        most = self._context.fronts[self._plan.position].most_offers
        relation = RelationRows.concatenate([part for part, _ in self._offers])
        frequencies = np.concatenate([part for _, part in self._offers])
        if len(frequencies) <= most:
            return relation, frequencies
        frequent = np.argpartition(frequencies, -most)[-most:]
        return relation.take(frequent), frequencies[frequent]
