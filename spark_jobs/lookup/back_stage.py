"""A task's back stage: joins tuples that miss with the task's range of R, which it reads live or from a copy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.joins.semi_stream import ALGORITHMS
from spark_jobs.joins.semi_stream.theory.batch_choice import choose_back_stage
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

Int64Array = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class FoundTuples:
    """What a join has found for n stream tuples.

    Attributes:
        relation: the tuples of R that were found; None: none.
        frequencies: int64, one for each of them: the stream tuples that it was found by.
        rows: int64, shape (n,), the row of `relation` that each found; -1: none.
        absent: bool, shape (n,): where R has no tuple.
        shed: bool, shape (n,): what was given up.
        algorithm: what was run.
        reason: why `auto` chose it; None where the pipeline names it.
        counts: what it took, by name.
    """

    relation: RelationRows | None
    frequencies: Int64Array
    rows: Int64Array
    absent: Bools
    shed: Bools
    algorithm: str
    reason: str | None
    counts: dict[str, int]

    @classmethod
    def of(
        cls, settlement: Settlement, count: int, algorithm: str, reason: str | None, counts: dict[str, int]
    ) -> FoundTuples:
        """By the tuples' positions."""
        rows, absent, shed = np.full(count, -1, np.int64), *np.zeros((2, count), np.bool_)
        rows[settlement.matched] = settlement.rows
        absent[settlement.unmatched] = True
        shed[settlement.shed] = True
        return cls(settlement.relation, settlement.frequencies, rows, absent, shed, algorithm, reason, counts)

    def part(self, positions: slice) -> FoundTuples:
        """That of some of them."""
        return replace(self, rows=self.rows[positions], absent=self.absent[positions], shed=self.shed[positions])


class BackStage:
    """The back stage of one lookup in one task.

    Args:
        plan: the lookup.
        url: where R is.
        parts: tasks that share the lookup's back stage, and its limit.
    """

    def __init__(self, plan: LookupPlan, url: str, parts: int) -> None:
        self._plan = plan
        self._url = url
        self._parts = parts

    def join(self, keys: KeyColumns, numbers: Int64Array, seconds: float | None, spent: float) -> FoundTuples:
        """Join tuples until all are settled, or the time is spent: then what is left is shed, the costliest.

        Args:
            keys: keys of the tuples, shape (n,), all of which R may have.
            numbers: int64, shape (n,), the page of R that each waits for, all of one part of the exchange.
            seconds: time that the task has for joining; None: any.
            spent: what earlier joins took of it.
        """
        plan = self._plan
        opened = self._opened(keys, numbers)
        relation = opened.part
        pages = PagesWaitedFor.of(numbers - relation.first_page)
        algorithm, reason = self._chosen(keys, pages, opened)
        join = make_back_stage(algorithm, relation, plan.back_stage_bytes, opened.most_tuples)
        order = pages if ALGORITHMS[algorithm].reads_pages else pages.looked_up(keys.codes)
        deadline = None if seconds is None else ShedDeadline(seconds, opened.live.limit, spent=spent)
        settlement = confirmed(run_back_stage(join, keys.codes, order, deadline), keys, relation)
        counts = {
            "asked": len(keys),
            "pages_read": join.statistics.pages_read,
            "lookups": join.statistics.lookups,
            "bytes_read": join.statistics.bytes_read,
            "relation_tuples_read": opened.live.tuples_read,
            "read_limit_wait_ms": round(opened.live.seconds_waited * 1000),
            "damaged_pages": opened.damaged_pages,
        }
        return FoundTuples.of(settlement, len(keys), algorithm, reason, counts)

    def _chosen(self, keys: KeyColumns, pages: PagesWaitedFor, opened: _OpenedRelation) -> tuple[str, str | None]:
        """The algorithm to run, and why `auto` chose it."""
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

    def _opened(self, keys: KeyColumns, pages: Int64Array) -> _OpenedRelation:
        """Open R for the tuples of one task; arguments as of `join`."""
        plan, url, limit = self._plan, self._url, self._read_limit()
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

    def _read_limit(self) -> ReadLimit | None:
        """The task's share of the lookup's limit."""
        plan = self._plan
        if plan.read_limit is None:
            return None
        return read_limit_of((plan.position, plan.spec.relation), plan.read_limit / self._parts)


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


def _with_changes(copy: LocalCopy, plan: CopyPlan, live: LimitedRelation, keys: KeyColumns) -> LocalCopy | ChangedCopy:
    """The copy with those of the tuples' keys looked up live, now, that have changed since it was taken."""
    if plan.changed is None:
        return copy
    changed: ChangedKeys = plan.changed.value()
    among = np.flatnonzero(changed.contains(keys.codes) & keys.valid)
    return ChangedCopy(copy, live, keys.take(among)) if len(among) else copy
