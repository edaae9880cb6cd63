"""A back stage's task: joins the tuples of one range of R by the lookup's algorithm, loads what is then complete."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.joins.semi_stream import ALGORITHMS
from spark_jobs.joins.semi_stream.theory.batch_choice import choose_back_stage
from spark_jobs.loading.outcome import Held
from spark_jobs.relation.keys.key_columns import KeyColumns
from spark_jobs.relation.relation_rows import RelationRows
from spark_jobs.stages.back_stage_join import (
    PagesWaitedFor,
    Settlement,
    ShedDeadline,
    confirmed,
    make_back_stage,
    pages_scanned,
    run_back_stage,
)
from spark_jobs.stages.batch_context import BatchContext, LookupPlan, TaskReport, concatenated
from spark_jobs.stages.exchange import MISSING, Parcel, page_column, parcels, unpacked
from spark_jobs.stages.fetching import hold_unmatched, look_up, stream_keys
from spark_jobs.stages.opened_relation import OpenedRelation, open_relation
from spark_jobs.stages.task_loading import TaskLoading, partition_number

Report = Callable[[TaskReport], Any]


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
    arrived = unpacked(packed)
    if arrived:
        waiting = _BackTask(context, context.lookups[lookup], report).run(concatenated(arrived))
        if waiting is not None:
            yield from parcels(waiting, context)


class _BackTask:
    def __init__(self, context: BatchContext, plan: LookupPlan, report: Report) -> None:
        self._context = context
        self._plan = plan
        self._send = report
        self._started = time.perf_counter()
        self._loading = TaskLoading(context)

    def run(self, arrived: pa.Table) -> pa.Table | None:
        """Do the lookup for all tuples that lack it; what still lacks a later one is the result."""
        asking = (arrived[MISSING].to_numpy() & self._plan.bit) != 0
        tuples = arrived if asking.all() else arrived.filter(pa.array(asking))
        joined, held, report = self._join(tuples)
        waiting = joined if asking.all() else concatenated([joined, arrived.filter(pa.array(~asking))])
        complete = waiting[MISSING].to_numpy() == 0
        self._loading.add(waiting.filter(pa.array(complete)), held)
        self._loading.finish()
        report.seconds["load"] = self._loading.seconds
        report.seconds["total"] = time.perf_counter() - self._started
        report.unsettled = self._loading.unsettled.to_bytes()
        self._send(report)
        rest = waiting.filter(pa.array(~complete))
        return rest if rest.num_rows else None

    def _join(self, tuples: pa.Table) -> tuple[pa.Table, list[Held], TaskReport]:
        """The tuples that now have this lookup's columns, those that are held, and what to report of the join."""
        plan = self._plan
        keys = stream_keys(tuples, plan)
        numbers = tuples[page_column(plan.position)].to_numpy()
        opened = open_relation(plan, self._context, keys, numbers)
        relation = opened.part
        pages = PagesWaitedFor.of(numbers - relation.first_page)
        algorithm, reason = self._algorithm(keys, pages, opened)
        join = make_back_stage(algorithm, relation, plan.back_stage_bytes, opened.most_tuples)
        order = pages if ALGORITHMS[algorithm].reads_pages else pages.looked_up(keys.codes)
        settlement = run_back_stage(join, keys.codes, order, self._deadline(opened))
        settlement = confirmed(settlement, keys, relation)
        report = TaskReport(
            stage="back",
            lookup=plan.position,
            partition=partition_number(),
            seconds={"join": time.perf_counter() - self._started},
            counts={
                "asked": tuples.num_rows,
                "unmatched": len(settlement.unmatched),
                "shed": len(settlement.shed),
                "pages_read": join.statistics.pages_read,
                "lookups": join.statistics.lookups,
                "bytes_read": join.statistics.bytes_read,
                "relation_tuples_read": opened.live.tuples_read,
                "read_limit_wait_ms": round(opened.live.seconds_waited * 1000),
                "damaged_pages": opened.damaged_pages,
            },
            offers=self._offers(settlement),
            algorithm=algorithm,
            reason=reason,
        )
        return *self._settled(tuples, settlement), report

    def _deadline(self, opened: OpenedRelation) -> ShedDeadline | None:
        seconds = self._context.back_stage_seconds
        return None if seconds is None else ShedDeadline(seconds, opened.live.limit)

    def _algorithm(self, keys: KeyColumns, pages: PagesWaitedFor, opened: OpenedRelation) -> tuple[str, str | None]:
        """The back stage to run, and why `auto` chose it."""
        plan = self._plan
        if plan.algorithm != "auto":
            return plan.algorithm, None
        if plan.costs is None:
            return "batched_index_nested_loop", "batched_index_nested_loop, because R can't be read by pages"
        choice = choose_back_stage(
            len(np.unique(keys.codes)),
            pages.count,
            plan.costs,
            stream_tuples=len(keys),
            page_count=pages_scanned(opened.part, len(keys), plan.back_stage_bytes, opened.most_tuples),
        )
        return choice.algorithm, choice.reason

    def _settled(self, tuples: pa.Table, settlement: Settlement) -> tuple[pa.Table, list[Held]]:
        plan, event_time = self._plan, self._context.event.event_time
        rows, absent, left = np.full(tuples.num_rows, -1, np.int64), *np.zeros((2, tuples.num_rows), bool)
        rows[settlement.matched] = settlement.rows
        absent[settlement.unmatched] = True
        left[settlement.matched] = left[settlement.unmatched] = True
        held = []
        if settlement.shed.size:
            reason = "the batch's time was spent before a tuple of this key was read"
            shed = tuples.take(pa.array(settlement.shed))
            held.append(Held("shed", reason, plan.spec.relation, shed))
        found = settlement.relation or RelationRows.empty(plan.spec)
        looked_up = look_up(found.columns, rows, absent, plan, tuples[event_time], event_time)
        for where, reason in looked_up.unmatched:
            held.append(hold_unmatched(tuples.filter(pa.array(where)), plan, reason))
            left &= ~where
        going = pa.array(left)
        return self._with_columns(tuples.filter(going), looked_up.columns.filter(going)), held

    def _with_columns(self, tuples: pa.Table, fetched: pa.Table) -> pa.Table:
        for name in fetched.column_names:
            tuples = tuples.set_column(tuples.column_names.index(name), name, fetched[name])
        done = tuples[MISSING].to_numpy() & ~self._plan.bit
        return tuples.set_column(tuples.column_names.index(MISSING), MISSING, pa.array(done))

    def _offers(self, settlement: Settlement) -> tuple[RelationRows, NDArray[np.int64]] | None:
        """The tuples of R that were found, for the front stage to choose from: the most frequent, if they are many."""
        front = self._context.fronts[self._plan.position]
        if not front.most_offers or settlement.relation is None:
            return None
        if len(settlement.frequencies) <= front.most_offers:
            return settlement.relation, settlement.frequencies
        frequent = np.argpartition(settlement.frequencies, -front.most_offers)[-front.most_offers :]
        return settlement.relation.take(frequent), settlement.frequencies[frequent]
