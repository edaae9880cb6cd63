"""PMJ: results while sorting, none twice, in whatever memory."""

from __future__ import annotations

import numpy as np

from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.base import Tuples
from spark_jobs.joins.stream_stream.merge_strategies import Greedy, MaxFanIn
from spark_jobs.joins.stream_stream.predicates import Equality
from spark_jobs.joins.stream_stream.progressive_merge_join import ProgressiveMergeJoin

PAGE_BYTES = 256


def tuples(keys: list[int], first_id: int = 0) -> Tuples:
    return Tuples(np.arange(first_id, first_id + len(keys)), np.array(keys, np.int64))


def finished(join: ProgressiveMergeJoin) -> tuple[int, int]:
    """Results and unmatched tuples of the rest."""
    results = list(join.finish())
    return sum(part.count for part in results), sum(part.unmatched.shape[1] for part in results)


def test_tuples_that_fit_into_memory_are_never_written() -> None:
    spill = VirtualSpill(page_bytes=PAGE_BYTES)
    join = ProgressiveMergeJoin(2, Equality(), 1 << 16, spill)
    join.arrive(0, tuples([1, 2, 2]))
    join.arrive(1, tuples([2, 3]))
    (results,) = join.finish()
    assert sorted(map(tuple, results.ids.T.tolist())) == [(1, 0), (2, 0)]
    assert sorted(map(tuple, results.unmatched.T.tolist())) == [(0, 0), (1, 1)]
    assert spill.pages_written == 0


def test_results_come_when_memory_is_sorted_when_runs_are_merged_and_at_the_end() -> None:
    join = ProgressiveMergeJoin(2, Equality(), 20_000, VirtualSpill(page_bytes=PAGE_BYTES), strategy=Greedy())
    half = join.memory_tuples // 2
    # Memory is full after as many of each stream, and where it holds an odd number, one without a partner.
    odd = [-1] * (join.memory_tuples % 2)
    counts = []
    for part in range(3):
        keys = list(range(half))
        left = join.arrive(0, tuples(keys, part * half))
        right = join.arrive(1, tuples(keys + odd, part * (half + 1)))
        merged = 0
        while join.is_work:
            merged += join.advance().count
        counts.append((left.count + right.count, merged))
    # Memory that is full of one part joins it with itself; a merge with all parts before it.
    assert counts == [(half, 0), (half, 2 * half), (half, 4 * half)]
    assert finished(join) == (0, 3 * len(odd))


def test_a_merge_that_is_interrupted_by_a_sort_gives_its_pages_back_and_goes_on_where_it_was() -> None:
    spill = VirtualSpill(page_bytes=PAGE_BYTES)
    join = ProgressiveMergeJoin(2, Equality(), 20_000, spill, strategy=MaxFanIn(), fan_in=8)
    half = join.memory_tuples // 2
    found = 0
    for part in range(4):
        for stream in range(2):
            found += join.arrive(stream, tuples(list(range(half)), part * half)).count
    assert join.is_work
    found += join.advance().count
    merge = join.merging
    assert merge is not None
    assert merge.page_bytes > PAGE_BYTES * 8
    held, before = merge.page_bytes, spill.pages_read
    for stream in range(2):
        found += join.arrive(stream, tuples(list(range(half)), 4 * half)).count
    assert join.merging is merge
    assert merge.page_bytes < held - PAGE_BYTES * 8
    unread = merge.tuples_unread
    found += join.advance().count
    assert merge.tuples_unread < unread
    join.check()
    assert spill.pages_read > before
    assert found + finished(join)[0] == half * 25


def test_more_tuples_of_one_key_than_memory_holds_are_joined_extent_by_extent() -> None:
    spill = VirtualSpill(page_bytes=PAGE_BYTES)
    join = ProgressiveMergeJoin(2, Equality(), 14_000, spill)
    count = 6 * join.memory_tuples
    found = set()
    for stream in range(2):
        found |= set(map(tuple, join.arrive(stream, tuples([7] * count + [8 + stream])).ids.T.tolist()))
        join.check()
    told = len(found)
    unmatched = []
    for part in join.finish():
        told += part.count
        found |= set(map(tuple, part.ids.T.tolist()))
        unmatched += part.unmatched.T.tolist()
        join.check()
    assert told == len(found) == count**2
    assert sorted(unmatched) == [[0, count], [1, count]]
    assert not spill.extents
