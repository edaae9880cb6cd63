"""No algorithm loads fewer pages than the bound says, not even one that knows the stream to come."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.joins.semi_stream import create
from spark_jobs.joins.semi_stream.theory.clairvoyant_bound import fewest_page_loads
from tests.joins.memory_relation import MemoryRelation

PAGES = 10
PAGE_ROWS = 3
STREAMS = st.lists(st.integers(0, PAGES - 1) | st.integers(0, 1), min_size=1, max_size=300)
FORGETFUL = ["hybrid_join", "mesh_join", "r_mesh_join", "early_release_mesh_join"]


def loads_of(algorithm: str, pages: list[int], memory: int) -> tuple[int, int]:
    """Pages that an algorithm loads for a stream that never lets it wait, and the most tuples that it held."""
    relation = MemoryRelation(range(PAGES * PAGE_ROWS), PAGE_ROWS)
    join = create(algorithm, relation, memory)
    numbers = np.array(pages)
    taken = held = 0
    while taken < len(pages) or join.pending:
        part = slice(taken, min(taken + join.room, len(pages)))
        join.push(numbers[part] * PAGE_ROWS, numbers[part], np.arange(part.start, part.stop))
        taken = part.stop
        held = max(held, join.pending)
        join.advance()
    return join.statistics.pages_read, held


@settings(deadline=None, max_examples=60)
@given(STREAMS, st.integers(1500, 4000), st.sampled_from(FORGETFUL))
def test_no_algorithm_loads_fewer(pages: list[int], memory: int, algorithm: str) -> None:
    loaded, held = loads_of(algorithm, pages, memory)
    assert fewest_page_loads(np.array(pages), held) <= loaded


def fewest_by_search(pages: tuple[int, ...], waiting: int) -> int:
    """The true minimum: after each arrival any pages may be loaded; all states are tried."""

    @cache
    def fewest(at: int, held: tuple[int, ...]) -> int:
        if at == len(pages):
            return len(set(held))
        now = tuple(sorted((*held, pages[at])))
        if len(now) > waiting:
            return 10**9
        best = fewest(at + 1, now)
        for page in set(now):
            best = min(best, 1 + fewest_after(at, tuple(other for other in now if other != page)))
        return best

    @cache
    def fewest_after(at: int, held: tuple[int, ...]) -> int:
        best = fewest(at + 1, held)
        for page in set(held):
            best = min(best, 1 + fewest_after(at, tuple(other for other in held if other != page)))
        return best

    return fewest(0, ())


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.integers(1, 5))
def test_never_above_the_optimum(pages: list[int], waiting: int) -> None:
    assert fewest_page_loads(np.array(pages), waiting) <= fewest_by_search(tuple(pages), waiting)


@given(STREAMS)
def test_with_memory_for_one_tuple_each_needs_a_load(pages: list[int]) -> None:
    assert fewest_page_loads(np.array(pages), 1) == len(pages)


@given(STREAMS)
def test_with_memory_for_all_each_page_needs_one(pages: list[int]) -> None:
    assert fewest_page_loads(np.array(pages), len(pages) + 1) == len(set(pages))


def test_it_is_sharp_for_uniform_pages_and_a_long_queue() -> None:
    pages = np.random.default_rng(1).integers(0, 100, 100_000)
    bound = fewest_page_loads(pages, 5000)
    # All pages in turn, one every 100 arrivals: each is loaded once in 2 h arrivals.
    assert bound == pytest.approx(100_000 / (2 * 5000) * 100, rel=0.1)
