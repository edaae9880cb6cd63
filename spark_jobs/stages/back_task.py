"""A back stage's task: joins the tuples of one range of R by the lookup's algorithm, loads what is then complete."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.definition.fates import SHED, UNMATCHED
from spark_jobs.joins.semi_stream import ALGORITHMS
from spark_jobs.joins.semi_stream.theory.batch_choice import choose_back_stage
from spark_jobs.loading.outcome import Held
from spark_jobs.lookup.changes.unnoticed import ChangedKeys
from spark_jobs.lookup.local_copy.copy_files import CopyManifest
from spark_jobs.lookup.local_copy.local_copy import ChangedCopy, LocalCopy
from spark_jobs.lookup.planning.lookup_plan import CopyPlan, LookupPlan, OwnedPages
from spark_jobs.lookup.relation.back_stage_join import (
    PagesWaitedFor,
    Settlement,
    ShedDeadline,
    confirmed,
    make_back_stage,
    pages_scanned,
    run_back_stage,
)
from spark_jobs.lookup.relation.live import LiveRelation
from spark_jobs.lookup.relation.read_limit import LimitedRelation, ReadLimit, read_limit_of
from spark_jobs.lookup.relation.relation_rows import RelationRows
from spark_jobs.lookup.relation.stored_relation import RelationPart
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

    def _joined(self, waiting: WaitingTuples) -> _FoundTuples:
        plan = self._plan
        keys, numbers = waiting.keys_and_pages()
        opened = _open_relation(plan, self._context, keys, numbers)
        relation = opened.part
        pages = PagesWaitedFor.of(numbers - relation.first_page)
        algorithm, reason = self._chosen(keys, pages, opened)
        join = make_back_stage(algorithm, relation, plan.back_stage_bytes, opened.most_tuples)
        order = pages if ALGORITHMS[algorithm].reads_pages else pages.looked_up(keys.codes)
        settlement = run_back_stage(join, keys.codes, order, self._deadline(opened))
        settlement = confirmed(settlement, keys, relation)
        self._algorithm = self._algorithm or (algorithm, reason)
        self._counts.update(
            {
                "asked": len(keys),
                UNMATCHED.name: len(settlement.unmatched),
                SHED.name: len(settlement.shed),
                "pages_read": join.statistics.pages_read,
                "lookups": join.statistics.lookups,
                "bytes_read": join.statistics.bytes_read,
                "relation_tuples_read": opened.live.tuples_read,
                "read_limit_wait_ms": round(opened.live.seconds_waited * 1000),
                "damaged_pages": opened.damaged_pages,
            }
        )
        if self._context.fronts[plan.position].most_offers and settlement.relation is not None:
            self._offers.append((settlement.relation, settlement.frequencies))
        return _FoundTuples.of(settlement, len(keys))

    def _deadline(self, opened: _OpenedRelation) -> ShedDeadline | None:
        """The end of the time that the task has for joining, what earlier joins took of it counted."""
        seconds = self._context.back_stage_seconds
        return None if seconds is None else ShedDeadline(seconds, opened.live.limit, spent=self._join_seconds)

    def _chosen(self, keys: KeyColumns, pages: PagesWaitedFor, opened: _OpenedRelation) -> tuple[str, str | None]:
        """The back stage to run, and why `auto` chose it."""
        plan = self._plan
        if plan.algorithm != "auto":
            return plan.algorithm, None
        if plan.costs is None:
            return "batched_index_nested_loop", "batched_index_nested_loop, because R can't be read by pages"
        choose = partial(
            choose_back_stage, len(np.unique(keys.codes)), pages.count, plan.costs, stream_tuples=len(keys)
        )
        scanned = None
        if choose(page_count=opened.part.page_count).algorithm == "mesh_join":
            # Where one scan takes too long already, it is not worth to find out how often memory has it scan R.
            scanned = pages_scanned(opened.part, len(keys), plan.back_stage_bytes, opened.most_tuples)
        choice = choose(page_count=scanned)
        return choice.algorithm, choice.reason

    def _looked_up(
        self, arrived: pa.Table, asking: NDArray[np.bool_], found: _FoundTuples
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


@dataclass(frozen=True)
class _FoundTuples:
    """What a join has found for n stream tuples.

    Attributes:
        relation: the tuples of R that were found; None: none.
        rows: int64, shape (n,), the row of `relation` that each found; -1: none.
        absent: bool, shape (n,): where R has no tuple.
        shed: bool, shape (n,): what was given up.
    """

    relation: RelationRows | None
    rows: NDArray[np.int64]
    absent: NDArray[np.bool_]
    shed: NDArray[np.bool_]

    @classmethod
    def of(cls, settlement: Settlement, count: int) -> _FoundTuples:
        """By the tuples' positions."""
        rows, absent, shed = np.full(count, -1, np.int64), *np.zeros((2, count), np.bool_)
        rows[settlement.matched] = settlement.rows
        absent[settlement.unmatched] = True
        shed[settlement.shed] = True
        return cls(settlement.relation, rows, absent, shed)

    def part(self, positions: slice) -> _FoundTuples:
        """That of some of them."""
        return _FoundTuples(self.relation, self.rows[positions], self.absent[positions], self.shed[positions])


@dataclass(frozen=True)
class _OpenedRelation:
    """R as one task reads it.

    Attributes:
        part: what its join sees.
        live: what it reads of PostgreSQL, counted and limited.
        copy: the local copy that it reads; None: it reads R live.
    """

    part: RelationPart
    live: LimitedRelation
    copy: LocalCopy | ChangedCopy | None = None

    @property
    def most_tuples(self) -> int | None:
        """Tuples that one read should not exceed; None: any number, as a copy is read as fast as can be."""
        return self.live.most_tuples if self.copy is None else None

    @property
    def damaged_pages(self) -> int:
        """Pages of the copy that were read live instead."""
        return 0 if self.copy is None else self.copy.pages_read_live


def _open_relation(
    plan: LookupPlan, context: BatchContext, keys: KeyColumns, pages: NDArray[np.int64]
) -> _OpenedRelation:
    """Open R for the tuples of one task.

    Args:
        plan: the lookup.
        context: the batch.
        keys: keys of the tuples, shape (n,).
        pages: int64, shape (n,), the page of R that each waits for, all of one part of the exchange.
    """
    url, limit = context.warehouse_url, _read_limit(plan, context)
    if plan.pages is None:
        live = LimitedRelation(LiveRelation(url, plan.spec), limit)
        return _OpenedRelation(RelationPart(live, keys, range(0)), live)
    owned: OwnedPages = plan.pages.value()
    task_pages = owned.range_around(pages)
    if plan.copy is None:
        live = LimitedRelation(LiveRelation(url, plan.spec, owned.index), limit)
        return _OpenedRelation(RelationPart(live, keys, task_pages), live)
    manifest: CopyManifest = plan.copy.manifest.value()
    live = LimitedRelation(LiveRelation(url, plan.spec, manifest.index), limit)  # damaged pages are read from there
    copy = _with_changes(LocalCopy(manifest, plan.spec, live, owned.index.page_rows), plan.copy, live, keys)
    return _OpenedRelation(RelationPart(copy, keys, task_pages), live, copy)


def _with_changes(copy: LocalCopy, plan: CopyPlan, live: LimitedRelation, keys: KeyColumns) -> LocalCopy | ChangedCopy:
    """The copy with those of the tuples' keys looked up live, now, that have changed since it was taken."""
    if plan.changed is None:
        return copy
    changed: ChangedKeys = plan.changed.value()
    among = np.flatnonzero(changed.contains(keys.codes) & keys.valid)
    return ChangedCopy(copy, live, keys.take(among)) if len(among) else copy


def _read_limit(plan: LookupPlan, context: BatchContext) -> ReadLimit | None:
    """The task's share of the lookup's limit."""
    if plan.read_limit is None:
        return None
    return read_limit_of((plan.position, plan.spec.relation), plan.read_limit / context.parts)
