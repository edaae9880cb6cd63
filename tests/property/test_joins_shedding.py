"""Lemma 1 and Theorem 1 of 003 §4.2 on counted page loads, and the adaptive position against every fixed one."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from spark_jobs.experiments.virtual_relation import FREE_DISK, VirtualClock, VirtualDisk, VirtualRelation
from spark_jobs.joins.semi_stream.hybrid_join import HybridJoin
from spark_jobs.joins.semi_stream.load_shedding import (
    LoadSheddingJoin,
    MemoryDestination,
    SheddingPolicy,
    considered,
    upfront,
)
from spark_jobs.joins.semi_stream.lookup_position import FixedPosition, LongestWait, OldestTuple
from spark_jobs.joins.structures.stream_buffer import TupleColumns
from spark_jobs.joins.structures.stream_tuples import StreamTuples
from spark_jobs.workload.zipf import ZipfDistribution

ROWS, PAGE_ROWS, QUEUE = 40_000, 50, 4_000
PAGES = ROWS // PAGE_ROWS
MEMORY = PAGE_ROWS * 120 + 44 * QUEUE + 20_000
FIFTHS = 5


class Workload:
    """R on pages and a Zipf stream; `front` leaves out the most frequent tuples, as a front stage does."""

    def __init__(self, exponent: float, *, shuffled: bool, front: int = 0) -> None:
        self.relation = VirtualRelation(ROWS, VirtualDisk(FREE_DISK, VirtualClock()), page_rows=PAGE_ROWS)
        probabilities = ZipfDistribution(ROWS, exponent).probabilities()
        probabilities[:front] = 0
        if shuffled:
            probabilities = np.random.default_rng(4).permutation(probabilities)
        self._cumulative = np.cumsum(probabilities / probabilities.sum())
        self.page_probability = np.add.reduceat(probabilities, np.arange(0, ROWS, PAGE_ROWS)) / probabilities.sum()
        self._random = np.random.default_rng(8)

    def tuples(self, first: int, count: int) -> TupleColumns:
        """The next stream tuples; an id holds its key."""
        keys = np.minimum(np.searchsorted(self._cumulative, self._random.random(count)), ROWS - 1)
        return self.of(np.arange(first, first + count) * ROWS + keys)

    def of(self, ids: np.ndarray) -> TupleColumns:
        return TupleColumns(ids % ROWS, self.relation.pages_of(ids % ROWS), ids)


def settled_by_load(workload: Workload, policy: SheddingPolicy, arrivals_by_load: float, turnovers: int = 8) -> float:
    """Stream tuples that a page load settles, in the second half of a run with this many arrivals between loads."""
    join = HybridJoin(workload.relation, MEMORY, policy.position)
    shedding = LoadSheddingJoin(join, policy, MemoryDestination(), workload.of, 4 * QUEUE)
    loads = int(turnovers * join.capacity / arrivals_by_load)
    half = arrived = 0
    for load in range(loads):
        count = int(arrivals_by_load * (load + 1)) - arrived
        shedding.push(*workload.tuples(arrived, count))
        arrived += count
        shedding.advance()
        if load == loads // 2:
            half = shedding.statistics.matched
    return (shedding.statistics.matched - half) / (loads - loads // 2 - 1)


@lru_cache
def unshedded(exponent: float, shuffled: bool, front: int = 0) -> float:
    """Stream tuples that a page load settles when memory is full before each and nothing is shed."""
    workload = Workload(exponent, shuffled=shuffled, front=front)
    join = HybridJoin(workload.relation, MEMORY, OldestTuple())
    half = half_reads = pushed = 0
    while join.statistics.pushed < 12 * join.capacity:
        room = join.room
        join.push(*workload.tuples(pushed, room))
        pushed += room
        join.advance()
        if pushed < 6 * join.capacity:
            half, half_reads = join.statistics.matched, join.statistics.pages_read
    return (join.statistics.matched - half) / (join.statistics.pages_read - half_reads)


class WatchedPosition(FixedPosition):
    """Notes the stream probability of the waiting tuples' pages, by their position in the queue."""

    def __init__(self, share: float, page_probability: np.ndarray) -> None:
        super().__init__(share)
        self._page_probability = page_probability
        self.by_fifth: list[list[float]] = []
        self._random = np.random.default_rng(2)

    def choose(self, waiting: StreamTuples) -> int:
        newer = ((np.arange(FIFTHS) + self._random.random(FIFTHS)) / FIFTHS * len(waiting)).astype(int)
        pages = [waiting.page_of(waiting.at(int(position))) for position in newer]
        self.by_fifth.append(self._page_probability[pages].tolist())
        return super().choose(waiting)


@pytest.mark.parametrize("share", [0.0, 0.15, 0.5, 1.0])
@pytest.mark.parametrize(("exponent", "shuffled"), [(0.5, False), (1.0, False), (1.0, True), (1.2, True)])
def test_stream_probability_falls_towards_the_queues_end(exponent: float, shuffled: bool, share: float) -> None:
    """Lemma 1: P_s(n) decreases with n, counted from the newest; for whatever position is looked up."""
    workload = Workload(exponent, shuffled=shuffled)
    position = WatchedPosition(share, workload.page_probability)
    settled_by_load(workload, considered(position), 2 * unshedded(exponent, shuffled))
    by_fifth = np.array(position.by_fifth[len(position.by_fifth) // 3 :])
    expected, noise = by_fifth.mean(axis=0), by_fifth.std(axis=0) / np.sqrt(len(by_fifth))
    assert expected[-1] < expected[0]
    assert (np.diff(expected) < 3 * np.hypot(noise[1:], noise[:-1])).all()


@pytest.mark.parametrize("overload", [2.0, 5.0])
@pytest.mark.parametrize(("exponent", "shuffled"), [(1.0, False), (1.0, True), (1.2, False), (1.2, True)])
def test_shedding_after_considering_settles_more_than_shedding_upfront(
    exponent: float, shuffled: bool, overload: float
) -> None:
    """Theorem 1, for the papers' skew."""
    arrivals = overload * unshedded(exponent, shuffled)
    after_considering = settled_by_load(Workload(exponent, shuffled=shuffled), considered(), arrivals)
    before = settled_by_load(Workload(exponent, shuffled=shuffled), upfront(), arrivals)
    assert after_considering > before


def test_without_skew_there_is_nothing_to_consider() -> None:
    """Theorem 1 needs pages of different popularity: where all are alike, tuples that will be shed only take room."""
    arrivals = 2 * unshedded(0.0, False)
    after_considering = settled_by_load(Workload(0.0, shuffled=False), considered(), arrivals)
    assert after_considering < settled_by_load(Workload(0.0, shuffled=False), upfront(), arrivals)


@pytest.mark.parametrize("overload", [1.2, 2.0, 5.0])
@pytest.mark.parametrize(
    ("exponent", "shuffled", "front"),
    [(0.0, False, 0), (0.5, False, 0), (1.0, False, 0), (1.0, False, 400), (1.0, True, 0), (1.0, True, 400)],
)
def test_the_longest_wait_is_no_worse_than_the_best_fixed_position(
    exponent: float, shuffled: bool, front: int, overload: float
) -> None:
    arrivals = overload * unshedded(exponent, shuffled, front)

    def settled(position: FixedPosition | LongestWait) -> float:
        return settled_by_load(
            Workload(exponent, shuffled=shuffled, front=front), considered(position), arrivals, turnovers=10
        )

    best = max(settled(FixedPosition(share)) for share in (0.15, 0.5, 0.75, 0.9, 1.0))
    assert settled(LongestWait(PAGES)) > 0.97 * best
