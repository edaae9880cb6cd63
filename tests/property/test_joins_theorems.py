"""Theorems 1 and 2 of 000 §4.3 on counted page loads, for random streams."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.joins.semi_stream.hybrid_join import HybridJoin
from tests.joins.memory_relation import MemoryRelation

PAGES = 12
PAGE_ROWS = 4
STREAMS = st.lists(st.integers(0, PAGES * PAGE_ROWS - 1) | st.integers(0, 3) | st.just(17), min_size=1, max_size=400)
MEMORY = st.integers(600, 4000)


def loads(stream: list[int], memory: int) -> tuple[list[tuple[int, int]], int]:
    """(page, stream tuples taken in when it was loaded) for each load, and the tuples that memory holds.

    The stream is fast: memory is refilled after every step, as MESHJOIN's is.
    """
    relation = MemoryRelation(range(PAGES * PAGE_ROWS), PAGE_ROWS)
    join = HybridJoin(relation, memory)
    keys = np.array(stream)
    pages = relation.pages_of(keys)
    loaded, pushed = [], 0
    while pushed < len(keys) or join.pending:
        take = slice(pushed, min(pushed + join.room, len(keys)))
        join.push(keys[take], pages[take], np.arange(take.start, take.stop))
        pushed = take.stop
        step = join.advance()
        assert step.matches is not None
        loaded.append((int(step.matches.page.keys[0]) // PAGE_ROWS, pushed))
    return loaded, join.capacity


@settings(deadline=None)
@given(STREAMS, MEMORY)
def test_no_page_is_loaded_more_often_than_mesh_join_loads_it(stream: list[int], memory: int) -> None:
    """Theorem 1: MESHJOIN loads every page once for every h_S stream tuples; HYBRIDJOIN no page more often."""
    loaded, capacity = loads(stream, memory)
    last: dict[int, int] = {}
    for page, taken_in in loaded:
        if page in last:
            # The tuple that is oldest at the second load came after the first; before it came all that
            # was in memory then, and memory is full again unless the stream is at its end.
            assert taken_in >= last[page] + capacity or taken_in == len(stream)
        last[page] = taken_in
    cycles = -(-len(stream) // capacity) + 1
    assert max(Counter(page for page, _ in loaded).values()) <= cycles
    assert len(loaded) <= cycles * PAGES


@settings(deadline=None)
@given(STREAMS, MEMORY)
def test_a_stream_tuple_costs_at_most_one_page_load(stream: list[int], memory: int) -> None:
    """Theorem 2: HYBRIDJOIN makes no more than a constant number of accesses per stream tuple."""
    loaded, _ = loads(stream, memory)
    assert len(loaded) <= len(stream)
    touched = {key // PAGE_ROWS for key in stream}
    assert {page for page, _ in loaded} == touched
