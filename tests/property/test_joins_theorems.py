"""Theorems 1 and 2 of 000 §4.3 on counted accesses to R, for random streams."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.joins.semi_stream.base import SemiStreamJoin
from spark_jobs.joins.semi_stream.hybrid_join import HybridJoin
from spark_jobs.joins.semi_stream.index_nested_loop import IndexNestedLoop
from spark_jobs.joins.semi_stream.mesh_join import MeshJoin
from tests.joins.memory_relation import TUPLE_BYTES, MemoryRelation
from tests.joins.semi_stream.saturated_run import SaturatedRun

PAGES = 12
PAGE_ROWS = 4
STREAMS = st.lists(st.integers(0, PAGES * PAGE_ROWS - 1) | st.integers(0, 3) | st.just(17), min_size=1, max_size=400)
# Stream tuples that memory holds: fewer than R has pages, and more.
CAPACITIES = st.integers(5, 80)


def relation() -> MemoryRelation:
    return MemoryRelation(range(PAGES * PAGE_ROWS), PAGE_ROWS)


@cache
def memory_for(make: Callable[[MemoryRelation, int], SemiStreamJoin], capacity: int) -> int:
    """The budget with which a join holds this many stream tuples (h_S)."""
    least = PAGE_ROWS * TUPLE_BYTES
    return next(memory for memory in range(least, 100 * least) if _capacity(make, memory) == capacity)


@cache
def _capacity(make: Callable[[MemoryRelation, int], SemiStreamJoin], memory: int) -> int:
    try:
        return make(relation(), memory).capacity
    except MemoryBudgetError:
        return 0


def run(make: Callable[[MemoryRelation, int], SemiStreamJoin], stream: list[int], capacity: int) -> SaturatedRun:
    """Join a stream that is faster than the join, to its end."""
    pages = relation()
    join = make(pages, memory_for(make, capacity))
    driven = SaturatedRun(join, pages, stream)
    driven.finish()
    assert join.statistics.matched == len(stream)
    return driven


@settings(deadline=None)
@given(STREAMS, CAPACITIES)
def test_no_page_is_loaded_more_often_than_mesh_join_loads_it(stream: list[int], capacity: int) -> None:
    """Theorem 1: with the same h_S, over the same stream prefix, HYBRIDJOIN loads no page more often."""
    by_hybrid_join = run(HybridJoin, stream, capacity).relation.page_reads
    by_mesh_join = run(MeshJoin, stream, capacity).relation.page_reads
    for page in range(PAGES):
        assert by_hybrid_join[page] <= by_mesh_join[page]


@settings(deadline=None)
@given(STREAMS, CAPACITIES)
def test_between_two_loads_of_a_page_come_as_many_tuples_as_memory_holds(stream: list[int], capacity: int) -> None:
    """What the proof of Theorem 1 says of HYBRIDJOIN, and of MESHJOIN: that page is loaded after h_S tuples again."""
    hybrid_join = run(HybridJoin, stream, capacity)
    last: dict[int, int] = {}
    for step, taken_in in zip(hybrid_join.steps, hybrid_join.taken_in, strict=False):
        assert step.matches is not None
        page = int(step.matches.page.keys[0]) // PAGE_ROWS
        # The tuple that is oldest at the second load came after the first; before it came all that was
        # in memory then, and memory is full again unless the stream is at its end.
        assert page not in last or taken_in >= last[page] + capacity or taken_in == len(stream)
        last[page] = taken_in


@settings(deadline=None)
@given(STREAMS, CAPACITIES)
def test_hybrid_join_accesses_r_no_more_often_than_index_nested_loop(stream: list[int], capacity: int) -> None:
    """Theorem 2: INLJ accesses R once for each stream tuple, HYBRIDJOIN at most once."""
    by_index_nested_loop = run(IndexNestedLoop, stream, capacity).join.statistics.seeks
    assert by_index_nested_loop == len(stream)
    hybrid_join = run(HybridJoin, stream, capacity)
    assert hybrid_join.join.statistics.seeks <= by_index_nested_loop
    assert set(hybrid_join.relation.page_reads) == {key // PAGE_ROWS for key in stream}


@pytest.mark.parametrize("hot_share", [0, 0.5, 1])
def test_skew_makes_the_bounds_loose(hot_share: float) -> None:
    """How far below both bounds HYBRIDJOIN stays depends on how much of the stream falls on few pages."""
    rng = np.random.default_rng(1)
    hot = rng.random(5000) < hot_share
    stream = np.where(hot, rng.integers(0, PAGE_ROWS, 5000), rng.integers(0, PAGES * PAGE_ROWS, 5000)).tolist()
    seeks = [run(make, stream, 40).join.statistics.seeks for make in (HybridJoin, MeshJoin, IndexNestedLoop)]
    assert seeks == sorted(seeks)
    if hot_share == 1:
        assert seeks[1] > 0.9 * PAGES * seeks[0]
