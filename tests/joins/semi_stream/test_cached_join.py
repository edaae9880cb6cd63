"""A front stage before a back stage saves reads of R."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from spark_jobs.joins.semi_stream import create
from spark_jobs.joins.semi_stream.cached_join import CachedJoin
from spark_jobs.joins.semi_stream.hybrid_join import HybridJoin
from spark_jobs.joins.semi_stream.mesh_join import MeshJoin
from tests.conformance.semi_stream_run import Run
from tests.joins.memory_relation import MemoryRelation


def skewed(count: int) -> np.ndarray:
    """Keys of 2,000, Zipf distributed with exponent 1, ranks shuffled."""
    rng = np.random.default_rng(1)
    cumulative = np.cumsum(1 / np.arange(1, 2001))
    return rng.permutation(2000)[np.searchsorted(cumulative / cumulative[-1], rng.random(count))]


def join_all(algorithm: str, keys: np.ndarray, memory: int) -> tuple[int, dict[str, int]]:
    """Accesses to R, and the algorithm's own counts."""
    relation = MemoryRelation(range(2000), page_rows=10)
    join = create(algorithm, relation, memory)
    done = 0
    while done < len(keys) or join.pending:
        part = keys[done : done + join.room]
        join.push(part, relation.pages_of(part), np.arange(done, done + len(part)))
        done += len(part)
        join.advance()
    assert join.statistics.matched == len(keys)
    return join.statistics.pages_read + join.statistics.lookups, join.statistics.extra


@pytest.mark.parametrize("back_stage", ["index_nested_loop", "hybrid_join"])
def test_frequent_tuples_are_joined_without_reading_r(back_stage: str) -> None:
    keys = skewed(20_000)
    alone, _ = join_all(back_stage, keys, 60_000)
    cached, extra = join_all(f"cached_{back_stage}", keys, 60_000)
    assert extra["front_stage_hits"] > 0.3 * len(keys)
    assert cached < 0.75 * alone


def test_back_stage_counts_are_the_joins_counts() -> None:
    relation = MemoryRelation(range(100), page_rows=10)
    join = create("cached_hybrid_join", relation, 60_000)
    keys = np.array([5, 6, 15])
    join.push(keys, relation.pages_of(keys), np.arange(3))
    list(join.finish())
    counts = join.statistics
    assert (counts.pages_read, counts.bytes_read) == (2, 20 * 40)
    assert counts.probes == 3 + 20, "three probes of the front stage, two pages of ten tuples"


def test_finish_drains_a_back_stage_that_waits_for_more_of_the_stream() -> None:
    relation = MemoryRelation(range(2000), page_rows=10)
    join = CachedJoin(relation, 60_000, MeshJoin)
    for first in (0, 3):
        keys = np.array([5, 1234, -1])
        join.push(keys, relation.pages_of(keys), first + np.arange(3))
        assert not join.reads_next
        assert join.advance().matches is None, "three tuples are no chunk"
        list(join.finish())
        assert join.pending == 0
    assert (join.statistics.matched, join.statistics.unmatched) == (4, 2)


def test_what_waits_for_the_back_stage_goes_on_when_all_in_it_are_shed() -> None:
    relation = MemoryRelation(range(2000), page_rows=10)
    join = CachedJoin(relation, 8_000, HybridJoin)
    pushed = 0
    while join.room:
        keys = np.arange(pushed, pushed + min(join.room, 20))
        join.push(keys, relation.pages_of(keys), keys)
        pushed += len(keys)
    in_back_stage = join.back_stage.pending
    assert join.pending > in_back_stage
    assert len(join.shed(in_back_stage)) == in_back_stage
    list(join.finish())
    assert join.statistics.matched == pushed - in_back_stage


class NoMemory(MemoryRelation):
    """Tuples of R can't be copied out of pages when told so."""

    failing = False

    def gather(self, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        if self.failing:
            raise MemoryError
        return super().gather(parts)


def test_tuples_that_cannot_be_cached_are_joined_all_the_same() -> None:
    relation = NoMemory(range(400))
    run = Run("cached_hybrid_join", relation, 60_000)
    random = np.random.default_rng(3)
    failures = 0
    for step in range(400):
        relation.failing = step % 5 == 0
        run.push((random.random(min(20, run.join.room)) ** 3 * 440).astype(int).tolist() if run.join.room else [])
        try:
            run.advance()
        except MemoryError:
            failures += 1
    relation.failing = False
    run.finish()
    assert failures
    run.assert_equals_dictionary_join()
