"""What only SSIJ promises: pages that stay in memory, and the page that most tuples wait for read first."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.joins.semi_stream.semi_streamed_index_join import SemiStreamedIndexJoin
from tests.joins.memory_relation import MemoryRelation
from tests.joins.semi_stream.saturated_run import SaturatedRun


def relation() -> MemoryRelation:
    """Keys 0 to 199, ten on a page of 400 bytes."""
    return MemoryRelation(range(200), page_rows=10, most_rows=12)


def push(join: SemiStreamedIndexJoin, pages: MemoryRelation, keys: list[int]) -> None:
    array = np.array(keys)
    first = join.statistics.pushed
    join.push(array, pages.pages_of(array), np.arange(first, first + len(keys)))
    join.check()


def finish(join: SemiStreamedIndexJoin) -> list[int]:
    """First keys of the pages joined with, in this order."""
    joined = []
    for step in join.finish():
        join.check()
        if step.matches is not None and step.matches.ids.size:
            joined.append(int(step.matches.page.keys[0]))
    return joined


def test_the_page_that_most_tuples_wait_for_is_read_first() -> None:
    pages = relation()
    join = SemiStreamedIndexJoin(pages, 10_000, cache_share=0)
    push(join, pages, [5, 71, 35, 72, 36, 73])
    assert finish(join) == [70, 30, 0]


def test_a_cached_page_is_not_read_again() -> None:
    pages = relation()
    join = SemiStreamedIndexJoin(pages, 10_000)
    push(join, pages, [5, 71])
    finish(join)
    push(join, pages, [6, 72, 7, 0])
    assert sorted(finish(join)) == [0, 70]
    assert pages.page_reads == {0: 1, 7: 1}
    assert join.statistics.extra["page_cache_hits"] == 4


def test_useful_pages_push_the_least_useful_out() -> None:
    pages = relation()
    join = SemiStreamedIndexJoin(pages, 10_000, cache_share=0.1)  # one page
    push(join, pages, [5])
    finish(join)
    push(join, pages, [71, 72, 73])
    finish(join)
    push(join, pages, [74, 35])
    finish(join)
    assert pages.page_reads == {0: 1, 7: 1, 3: 1}
    push(join, pages, [75, 6])
    finish(join)
    assert pages.page_reads == {0: 2, 7: 1, 3: 1}


def test_use_is_forgotten() -> None:
    pages = relation()
    join = SemiStreamedIndexJoin(pages, 4_000, cache_share=0.3, blocking=False)
    run = SaturatedRun(join, pages, [5] * 4_000 + [71] * 4_000)
    run.finish()
    reads = pages.page_reads[7]
    push(join, pages, [72])
    finish(join)
    assert pages.page_reads[7] == reads
    assert reads < 4_000 / join.capacity


def test_a_key_that_came_to_r_after_its_page_was_cached_is_found() -> None:
    pages = relation()
    join = SemiStreamedIndexJoin(pages, 10_000)
    push(join, pages, [5])
    finish(join)
    pages.insert(1000)
    push(join, pages, [1000, 195, 1001])
    finish(join)
    assert (join.statistics.matched, join.statistics.unmatched) == (3, 1)
    pages.insert(1001)
    push(join, pages, [196, 1001, 1000])
    finish(join)
    assert (join.statistics.matched, join.statistics.unmatched) == (6, 1)
    # The first read, and one more for the tuple that the cached page had no match for.
    assert pages.page_reads[19] == 2


def test_it_waits_for_the_input_threshold_and_then_joins_with_cached_pages() -> None:
    pages = relation()
    join = SemiStreamedIndexJoin(pages, 10_000, input_share=0.1)
    push(join, pages, [5])
    finish(join)
    threshold = int(0.1 * join.capacity)
    push(join, pages, [6] * (threshold - 2) + [150])
    assert not join.reads_next
    assert join.advance().matches is None
    push(join, pages, [7])
    assert not join.reads_next
    step = join.advance()
    assert step.matches is not None
    assert len(step.matches.ids) == threshold - 1
    # The tuple of page 15 waits in the stream buffer, which is far below its threshold.
    assert join.advance().matches is None
    assert (join.pending, pages.page_reads) == (1, {0: 1})


def test_it_reads_when_the_stream_buffer_is_above_its_threshold() -> None:
    pages = relation()
    join = SemiStreamedIndexJoin(pages, 4_000, cache_share=0, input_share=0.25)
    threshold = join.capacity - int(0.25 * join.capacity)
    push(join, pages, [150] * threshold)
    assert join.advance().matches is None
    push(join, pages, [151])
    assert join.reads_next
    assert join.advance().matches is not None
    assert join.pending == 0


def test_a_rare_key_does_not_wait_for_ever() -> None:
    pages = relation()
    join = SemiStreamedIndexJoin(pages, 3_000, cache_share=0, blocking=False)
    push(join, pages, [199])
    run = SaturatedRun(join, pages, np.random.default_rng(1).integers(0, 150, 30_000).tolist())
    run.pushed = 1
    while not pages.page_reads[19]:
        run.step()
    assert sum(pages.page_reads.values()) < 40


def test_pages_that_come_to_r_are_read_though_they_have_no_counters() -> None:
    class Growing(MemoryRelation):
        def grow(self) -> None:
            self._pages.append([1000, 1001])
            self._first_keys = np.append(self._first_keys, 1000)

    pages = Growing(range(200), page_rows=10)
    join = SemiStreamedIndexJoin(pages, 10_000, blocking=False)
    pages.grow()
    push(join, pages, [1000, 5, 1001, 1002])
    finish(join)
    assert (join.statistics.matched, join.statistics.unmatched) == (3, 1)
    assert pages.page_reads == {20: 1, 0: 1}


def test_shed_tuples_are_not_waited_for_any_more() -> None:
    pages = relation()
    join = SemiStreamedIndexJoin(pages, 10_000, blocking=False)
    push(join, pages, [5])
    finish(join)
    push(join, pages, [-3, 71, 72, 150])
    join.advance()  # The cached page 0 has no -3: this one waits until the page has been read again.
    join.check()
    assert join.pending == 4
    for count, expected in [(2, [2, 3]), (1, [4]), (5, [1])]:
        assert join.shed(count).tolist() == expected
        join.check()
    assert pages.page_reads == {0: 1}


def test_shares_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"cache_share is 1\.5"):
        SemiStreamedIndexJoin(relation(), 10_000, cache_share=1.5)
    with pytest.raises(ValueError, match="input_share is -1"):
        SemiStreamedIndexJoin(relation(), 10_000, input_share=-1)
    whole = SemiStreamedIndexJoin(relation(), 10_000, cache_share=1)
    assert whole.capacity >= 1
