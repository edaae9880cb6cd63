"""TPMJ: results in order of validity, at the left flank of the merge tree; what is dead is dropped."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.base import Tuples
from spark_jobs.joins.stream_stream.merge_strategies import Greedy, MaxFanIn, MergeStrategy
from spark_jobs.joins.stream_stream.predicates import Equality
from spark_jobs.joins.stream_stream.temporal_progressive_merge_join import TemporalProgressiveMergeJoin

PAGE_BYTES = 400


def tuples(*rows: tuple[int, int, int], first_id: int = 0) -> Tuples:
    keys, starts, ends = np.array(rows, np.int64).T
    return Tuples(np.arange(first_id, first_id + len(rows)), keys, None, starts, ends)


def test_the_papers_example_of_a_join_with_validity() -> None:
    """004 §5.1."""
    join = TemporalProgressiveMergeJoin(2, Equality(), 1 << 18, VirtualSpill())
    join.arrive(0, tuples((42, 10, 15), (3, 11, 14)))
    join.arrive(1, tuples((42, 4, 12), (3, 17, 22)))
    (results,) = join.finish()
    assert results.starts is not None
    assert results.ends is not None
    assert [results.ids.T.tolist(), results.starts.tolist(), results.ends.tolist()] == [[[0, 0]], [10], [12]]
    assert sorted(map(tuple, results.unmatched.T.tolist())) == [(0, 1), (1, 1)]


def test_a_tuple_out_of_order_is_refused() -> None:
    join = TemporalProgressiveMergeJoin(2, Equality(), 1 << 18, VirtualSpill())
    rows = ((1, 5, 9), (1, 4, 20), (1, 5, 8), (1, 5, 9), (1, 6, 7), (1, 5, 30))
    assert join.arrive(0, tuples(*rows)).refused.tolist() == [1, 2, 5]
    assert join.arrive(0, tuples((1, 6, 6 + 1), first_id=6)).refused.tolist() == []
    # Each stream by itself.
    assert join.arrive(1, tuples((1, 0, 1))).refused.tolist() == []


class Played:
    """A join of two streams with a tuple at each instant, and what it told when."""

    def __init__(self, strategy: MergeStrategy, window: int, count: int, memory: int, fan_in: int) -> None:
        self.spill = VirtualSpill(page_bytes=PAGE_BYTES)
        self.join = TemporalProgressiveMergeJoin(2, Equality(), memory, self.spill, strategy=strategy, fan_in=fan_in)
        self.starts: list[int] = []
        self.late: list[int] = []
        self.most_on_disk = 0
        randomness = np.random.default_rng(1)
        for first in range(0, count, 10):
            instants = range(first, first + 10)
            for stream in range(2):
                keys = randomness.integers(0, 50, 10).tolist()
                rows = [(key, t, t + window) for key, t in zip(keys, instants, strict=True)]
                self._take(self.join.arrive(stream, tuples(*rows, first_id=first)).starts)
            while self.join.is_work:
                self._take(self.join.advance().starts)
            self.most_on_disk = max(self.most_on_disk, self.join.tuples_on_disk())
        self.before_the_end = len(self.starts)
        for results in self.join.finish():
            self._take(results.starts)

    def _take(self, starts: np.ndarray | None) -> None:
        assert starts is not None
        self.starts += starts.tolist()


@pytest.mark.parametrize("strategy", [MaxFanIn(), Greedy()])
def test_results_come_in_order_most_of_them_before_the_end(strategy: MergeStrategy) -> None:
    played = Played(strategy, window=300, count=6000, memory=60_000, fan_in=6)
    assert played.starts == sorted(played.starts)
    assert played.before_the_end > 0.7 * len(played.starts)


def test_the_disk_holds_a_window_and_what_memory_wrote_since_the_last_merge() -> None:
    played = Played(Greedy(), window=300, count=6000, memory=60_000, fan_in=6)
    assert played.most_on_disk <= 2 * 300 + 2 * played.join.memory_tuples


def test_a_window_longer_than_the_fan_in_of_runs_makes_merges_beside_the_flank() -> None:
    short = Played(MaxFanIn(), window=300, count=6000, memory=60_000, fan_in=6)
    long = Played(MaxFanIn(), window=3000, count=6000, memory=60_000, fan_in=6)
    assert long.starts == sorted(long.starts)
    # More tuples are written than by merges at the flank alone, but each only as often as there are levels.
    assert short.join.statistics.flushed < long.join.statistics.flushed < 5 * long.join.statistics.arrived


def test_no_result_is_told_while_a_stream_has_brought_nothing() -> None:
    join = TemporalProgressiveMergeJoin(2, Equality(), 60_000, VirtualSpill(page_bytes=PAGE_BYTES), strategy=Greedy())
    join.arrive(0, tuples(*((1, t, t + 5) for t in range(3000))))
    while join.is_work:
        assert not join.advance().count
    # All tuples are still there: one of the other stream may begin as early as it likes.
    assert join.tuples_in_memory() + join.tuples_on_disk() == 3000
    assert join.arrive(1, tuples((1, 0, 3000))).refused.size == 0
    assert sum(results.count for results in join.finish()) == 3000


def test_a_stream_that_tells_how_far_it_is_keeps_nothing_back() -> None:
    join = TemporalProgressiveMergeJoin(2, Equality(), 60_000, VirtualSpill(page_bytes=PAGE_BYTES), strategy=Greedy())
    join.arrive(1, tuples((1, 0, 100)))
    join.reach(1, 3000)
    found = join.arrive(0, tuples(*((t % 50, t, t + 5) for t in range(3000)))).count
    while join.is_work:
        found += join.advance().count
    assert found == 2
    assert join.tuples_on_disk() <= join.memory_tuples
    assert join.arrive(1, tuples((1, 2999, 3001), first_id=1)).refused.tolist() == [1]
