"""What only the partition-based join does: slots that fill, a switch to lookups, rare keys that wait without bound."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.joins.semi_stream.hybrid_join import HybridJoin
from spark_jobs.joins.semi_stream.partition_wait_join import PartitionWaitJoin
from tests.joins.memory_relation import MemoryRelation
from tests.joins.semi_stream.saturated_run import SaturatedRun


def relation() -> MemoryRelation:
    """Keys 0 to 199, ten on a page."""
    return MemoryRelation(range(200), page_rows=10)


def push(join: PartitionWaitJoin, pages: MemoryRelation, keys: list[int]) -> None:
    array = np.array(keys)
    first = join.statistics.pushed
    join.push(array, pages.pages_of(array), np.arange(first, first + len(keys)))
    join.check()


def test_a_page_is_read_when_its_slot_is_full_enough_and_not_before() -> None:
    pages = relation()
    join = PartitionWaitJoin(pages, 10_000, threshold=3)
    for keys in ([1, 2, 11], [12, 21]):
        push(join, pages, keys)
        assert not join.reads_next
        assert join.advance().matches is None
    push(join, pages, [3, 31])
    assert join.reads_next
    step = join.advance()
    assert step.matches is not None
    assert sorted(step.matches.ids.tolist()) == [0, 1, 5]
    assert pages.page_reads == {0: 1}
    assert join.pending == 4


def test_a_full_buffer_reads_the_page_of_its_fullest_slot() -> None:
    pages = relation()
    join = PartitionWaitJoin(pages, 10_000, threshold=1_000)
    keys = [(37 * number) % 200 for number in range(join.room - 7)]
    push(join, pages, keys)
    assert join.advance().matches is None
    push(join, pages, [150, 151, 152, 153, 154, 155, 156])
    assert join.room == 0
    join.advance()
    assert pages.page_reads == {15: 1}


def test_while_the_stream_is_slow_tuples_are_looked_up_one_by_one() -> None:
    pages = relation()
    join = PartitionWaitJoin(pages, 10_000)
    for key in (5, 5, 77, 1_000):
        push(join, pages, [key])
        step = join.advance()
        assert step.matches is not None
        assert len(step.matches.ids) + len(step.unmatched) == 1
    assert (join.statistics.lookups, join.statistics.pages_read, join.pending) == (4, 0, 0)


def test_when_a_fast_stream_gets_slow_what_waited_is_settled_by_page_where_several_wait_for_it() -> None:
    pages = relation()
    join = PartitionWaitJoin(pages, 10_000)
    push(join, pages, [1, 2, 3, 50, 60, 61])
    assert join.advance().matches is None, "the stream is fast, and no slot is full enough"
    settled = [join.advance().matches for _ in range(3)]
    assert [sorted(matches.ids.tolist()) for matches in settled if matches is not None] == [[0, 1, 2], [4, 5], [3]]
    assert pages.page_reads == {0: 1, 6: 1}
    assert join.statistics.lookups == 1


@pytest.mark.parametrize("times", [3, 30, 300])
def test_a_rare_key_waits_as_long_as_the_stream_is_fast(times: int) -> None:
    """000 §2, 003 §2. HYBRIDJOIN settles the same tuple within a turnover of its memory, by its Theorem 2."""
    pages = relation()
    join, hybrid = PartitionWaitJoin(pages, 10_000), HybridJoin(pages, 10_000)
    others = np.random.default_rng(1).integers(10, 200, times * join.capacity).tolist()
    waiting = SaturatedRun(join, pages, [5, *others])
    waiting.until_the_stream_ends()
    assert join.statistics.matched > (times - 1) * join.capacity
    assert 0 not in waiting.settled
    bounded = SaturatedRun(hybrid, pages, [5, *others])
    bounded.until_the_stream_ends()
    assert bounded.settled.index(0) < hybrid.capacity
    assert 0 in [int(id_) for step in join.finish() if step.matches is not None for id_ in step.matches.ids]


def test_a_slot_holds_half_a_threshold_in_the_long_run_however_popular_its_page() -> None:
    pages = relation()
    join = PartitionWaitJoin(pages, 40_000)
    weights = 1 / np.arange(1, 21)
    random = np.random.default_rng(1)
    popular = random.choice(20, 200 * join.capacity, p=weights / weights.sum())
    run = SaturatedRun(join, pages, (10 * popular + random.integers(0, 10, len(popular))).tolist())
    held = []
    while run.pushed < len(run.stream):
        run.step()
        if run.pushed > 100 * join.capacity:
            held.append(join._slots._slots.waiting.copy())
    mean = np.mean(held, axis=0)
    assert mean == pytest.approx(np.full(20, (join.threshold - 1) / 2), rel=0.2)
    reads = np.array([pages.page_reads[page] for page in range(20)])
    assert reads[0] > 10 * reads[19]


def test_the_default_threshold_fills_the_buffer_when_all_slots_fill_evenly() -> None:
    pages = relation()
    join = PartitionWaitJoin(pages, 40_000)
    assert join.threshold == 1 + 2 * join.capacity // 20


def test_a_threshold_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        PartitionWaitJoin(relation(), 10_000, threshold=0)
