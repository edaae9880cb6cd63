"""Drives a back-stage join over one task's tuples until all are settled or the time is spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.joins.semi_stream import ALGORITHMS, create
from spark_jobs.joins.semi_stream.base import Matches, SemiStreamJoin, Step
from spark_jobs.joins.semi_stream.mesh_join import MeshJoin
from spark_jobs.lookup.relation.read_limit import ReadLimit
from spark_jobs.lookup.relation.relation_rows import RelationRows
from spark_jobs.lookup.relation.stored_relation import RelationPart

# What `auto` chooses from, batch by batch.
_AUTO = ("hybrid_join", "batched_index_nested_loop", "mesh_join", "index_nested_loop")


@dataclass(frozen=True, eq=False)
class PagesWaitedFor:
    """The pages of n stream tuples, numbered from the first that the task owns.

    Attributes:
        of_tuples: int64, shape (n,), the page of each tuple.
        count: different pages among them.
        cheapest_first: int64, shape (n,), the tuples' positions; first those whose page the most others wait for.
    """

    of_tuples: NDArray[np.int64]
    count: int
    cheapest_first: NDArray[np.int64]

    @classmethod
    def of(cls, pages: NDArray[np.int64]) -> PagesWaitedFor:
        """Sort tuples by their pages, int64, shape (n,). O(n log n).

        All tuples of a batch are at hand, so what each costs is known: a part 1/n of a page that n of them wait for.
        And since those of a page follow one another, each page is read once, however few tuples the queue holds.
        The paper (003 section 4.2), which sees one tuple after the other, finds out by letting them grow old.
        """
        count, cheapest_first = _cheapest_first(pages)
        return cls(pages, count, cheapest_first)

    def looked_up(self, codes: NDArray[np.int64]) -> PagesWaitedFor:
        """The same tuples for an algorithm that looks their keys up, int64, shape (n,): those of a key share a read."""
        return replace(self, cheapest_first=_cheapest_first(codes)[1])


def _cheapest_first(reads: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
    """How many different reads there are, and the tuples' positions, those of the most wanted read first."""
    distinct, position, waiting = np.unique(reads, return_inverse=True, return_counts=True)
    return len(distinct), np.lexsort((position, -waiting[position]))


class ShedDeadline:
    """The end of a back stage's time, asked for between its steps.

    Args:
        seconds: time of the back stage.
        limit: of reading R; None: there is none.
        spent: how much of the time earlier joins have taken.
        clock: tells seconds.
    """

    def __init__(
        self,
        seconds: float,
        limit: ReadLimit | None = None,
        *,
        spent: float = 0.0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._seconds = seconds
        self._limit = limit
        self._clock = clock
        self._step_began = clock()
        self._ends_at = self._step_began + seconds - spent
        self._waited = limit.seconds_waited if limit else 0.0

    def has_come(self) -> bool:
        """Whether there is no time for another step."""
        now = self._clock()
        waited = self._limit.seconds_waited if self._limit else 0.0
        step = now - self._step_began - (waited - self._waited)
        if step > self._seconds / 2:
            self._ends_at += step  # no step takes this long: the warehouse was away, which is not overload
        self._step_began, self._waited = now, waited
        ready = now + self._limit.seconds_until_ready() if self._limit else now
        return ready > self._ends_at


@dataclass(frozen=True)
class Settlement:
    """What became of n stream tuples; ids are their positions, each in exactly one of the three arrays.

    Attributes:
        matched: int64, shape (m,), tuples that found their tuple of R.
        rows: int64, shape (m,), the row of `relation` that each found.
        relation: the tuples of R that were found, shape (r,), each once per page read.
        frequencies: int64, shape (r,), stream tuples that each was found by.
        unmatched: int64, tuples whose key is not in R.
        shed: int64, tuples given up when the time was spent.
    """

    matched: NDArray[np.int64]
    rows: NDArray[np.int64]
    relation: RelationRows | None
    frequencies: NDArray[np.int64]
    unmatched: NDArray[np.int64]
    shed: NDArray[np.int64]


def back_stages(algorithm: str, paged: bool) -> list[str]:
    """The back stages that a lookup's algorithm may come to.

    Args:
        algorithm: its name in the catalogue, or `auto`.
        paged: whether R can be read by pages.
    """
    if algorithm != "auto":
        return [algorithm]
    return [name for name in _AUTO if paged or not ALGORITHMS[name].reads_pages]


def make_back_stage(
    algorithm: str, relation: RelationPart, memory_bytes: int, most_tuples: int | None = None
) -> SemiStreamJoin:
    """Make the operator of a back stage; one that scans its pages reads several of them in one go.

    Args:
        algorithm: its name in the catalogue.
        relation: R.
        memory_bytes: its budget.
        most_tuples: tuples of R that one read should not exceed, as far as the algorithm can choose; None: any.

    Raises:
        MemoryBudgetError: the budget is too small for a single step.
    """
    if ALGORITHMS[algorithm].scans_pages:
        return create(algorithm, _runs(relation, memory_bytes, most_tuples), memory_bytes)
    return create(algorithm, relation, memory_bytes, most_keys=most_tuples)


def pages_scanned(relation: RelationPart, tuples: int, memory_bytes: int, most_tuples: int | None = None) -> int:
    """Pages that mesh_join would read for `tuples` stream tuples that are all at hand.

    It takes them in while it scans, as many in a cycle as its memory holds, and the last ones need a cycle more.
    """
    join = MeshJoin(_runs(relation, memory_bytes, most_tuples), memory_bytes)
    return round(relation.page_count * (1 + tuples / join.capacity))


def _runs(relation: RelationPart, memory_bytes: int, most_tuples: int | None) -> RelationPart:
    # Under a limit a run of pages takes as long as the pages one by one, and may not be broken off.
    return relation.in_runs(memory_bytes) if most_tuples is None else relation


def run_back_stage(
    join: SemiStreamJoin, codes: NDArray[np.int64], pages: PagesWaitedFor, deadline: ShedDeadline | None
) -> Settlement:
    """Join tuples 0 to n - 1.

    Args:
        join: the algorithm, new and empty.
        codes: int64, shape (n,), key codes.
        pages: the page of R for each.
        deadline: when it has come, what is left is shed: the costliest; None: it never comes.
    """
    found = _Found()
    feed = _Feed(join, codes, pages)
    steps = feed.steps()
    shed: list[NDArray[np.int64]] = []
    while True:
        if deadline is not None and deadline.has_come():
            shed = [join.shed(join.pending), feed.rest]
            break
        step = next(steps, None)
        if step is None:
            break
        found.add(step.matches, step.unmatched)
    return found.settlement(_joined(shed))


class _Feed:
    """Pushes tuples into a join as it has room, the cheapest first."""

    def __init__(self, join: SemiStreamJoin, codes: NDArray[np.int64], pages: PagesWaitedFor) -> None:
        self._join = join
        self._codes, self._pages = codes, pages.of_tuples
        self.rest = pages.cheapest_first  # ids of the tuples that have not been pushed yet

    def steps(self) -> Iterator[Step]:
        """Do steps until all tuples are settled."""
        while self._push():
            yield self._join.advance()
        yield from self._join.finish()

    def _push(self) -> bool:
        """Push what there is room for; whether there is more."""
        take, self.rest = self.rest[: self._join.room], self.rest[self._join.room :]
        self._join.push(self._codes[take], self._pages[take], take)
        return self.rest.size > 0


class _Found:
    """Gathers steps: tuples of R are kept once per page, however many stream tuples found them."""

    def __init__(self) -> None:
        self._ids: list[NDArray[np.int64]] = []
        self._rows: list[NDArray[np.int64]] = []
        self._relation: list[RelationRows] = []
        self._frequencies: list[NDArray[np.int64]] = []
        self._unmatched: list[NDArray[np.int64]] = []
        self._count = 0

    def add(self, matches: Matches | None, unmatched: NDArray[np.int64]) -> None:
        if unmatched.size:
            self._unmatched.append(unmatched)
        if matches is None or not matches.ids.size:
            return
        frequencies = np.bincount(matches.rows, minlength=len(matches.page.keys))
        touched = np.flatnonzero(frequencies)
        rank = np.cumsum(frequencies > 0) - 1
        self._ids.append(matches.ids)
        self._rows.append(rank[matches.rows] + self._count)
        self._relation.append(matches.page.rows.take(touched))
        self._frequencies.append(frequencies[touched])
        self._count += len(touched)

    def settlement(self, shed: NDArray[np.int64]) -> Settlement:
        return Settlement(
            matched=_joined(self._ids),
            rows=_joined(self._rows),
            relation=RelationRows.concatenate(self._relation) if self._relation else None,
            frequencies=_joined(self._frequencies),
            unmatched=_joined(self._unmatched),
            shed=shed,
        )


def _joined(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def confirmed(settlement: Settlement, keys: KeyColumns, relation: RelationPart) -> Settlement:
    """Check matches of hash codes against the real keys; a false one is looked up by its real key alone.

    Args:
        settlement: what the join found by codes.
        keys: the real keys of the stream tuples.
        relation: where to look up.
    """
    if keys.encoded is None or settlement.relation is None:
        return settlement
    same = keys.equals(settlement.matched, settlement.relation.keys, settlement.rows)
    if same.all():
        return settlement
    matched, rows = [settlement.matched[same]], [settlement.rows[same]]
    relations, frequencies = [settlement.relation], [settlement.frequencies]
    unmatched = [settlement.unmatched]
    for stream_tuple in settlement.matched[~same]:
        one = np.array([stream_tuple])
        page = relation.lookup(keys.codes[one], one)
        candidates = np.arange(len(page.keys))
        hits = candidates[keys.equals(np.repeat(one, len(candidates)), page.rows.keys, candidates)]
        if hits.size:
            matched.append(one)
            rows.append(np.array([sum(len(part) for part in relations)]))
            relations.append(page.rows.take(hits[:1]))
            frequencies.append(np.ones(1, np.int64))
        else:
            unmatched.append(one)
    return Settlement(
        np.concatenate(matched),
        np.concatenate(rows),
        RelationRows.concatenate(relations),
        np.concatenate(frequencies),
        np.concatenate(unmatched),
        settlement.shed,
    )
