"""Drives a back-stage join over one task's tuples until all are settled or the time is spent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.semi_stream import ALGORITHMS, create
from spark_jobs.joins.semi_stream.base import Matches, SemiStreamJoin, Step
from spark_jobs.joins.semi_stream.mesh_join import MeshJoin
from spark_jobs.relation.relation_rows import RelationRows
from spark_jobs.relation.stored_relation import RelationPart
from spark_jobs.stages.pages_waited_for import PagesWaitedFor
from spark_jobs.stages.shed_deadline import ShedDeadline

# What `auto` chooses from, batch by batch.
_AUTO = ("hybrid_join", "batched_index_nested_loop", "mesh_join", "index_nested_loop")


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
    """Pages that mesh_join would read for so many stream tuples that are all at hand.

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
