"""What early release adds to MESHJOIN: room as soon as a tuple is joined, and so twice the tuples a page."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.experiments.virtual_relation import FREE_DISK, VirtualClock, VirtualDisk, VirtualRelation
from spark_jobs.joins.semi_stream.early_release_mesh_join import EarlyReleaseMeshJoin
from spark_jobs.joins.semi_stream.mesh_join import MeshJoin
from tests.joins.memory_relation import MemoryRelation
from tests.joins.semi_stream.saturated_run import SaturatedRun

PAGES = 50
MEMORY = 40_000


def relation() -> MemoryRelation:
    return MemoryRelation(range(10 * PAGES), page_rows=10)


def test_uniform_keys_are_settled_twice_as_fast_in_the_same_memory() -> None:
    stream = np.random.default_rng(1).integers(0, 10 * PAGES, 100_000).tolist()
    settled = {}
    for make in (MeshJoin, EarlyReleaseMeshJoin):
        pages = relation()
        run = SaturatedRun(make(pages, MEMORY), pages, stream)
        for _ in range(5 * PAGES):
            run.step()
        before = run.join.statistics.matched
        for _ in range(10 * PAGES):
            run.step()
        settled[make] = run.join.statistics.matched - before
    assert 1.8 < settled[EarlyReleaseMeshJoin] / settled[MeshJoin] < 2.2


def test_a_joined_tuple_makes_room_at_once() -> None:
    pages = relation()
    join = EarlyReleaseMeshJoin(pages, MEMORY)
    count = join.room
    join.push(np.full(count, 5), np.zeros(count, np.int64), np.arange(count))
    assert join.room == 0
    join.advance()
    assert join.room == count


def test_tuples_without_match_are_known_after_one_to_two_cycles() -> None:
    pages = relation()
    join = EarlyReleaseMeshJoin(pages, MEMORY)
    for page in range(3 * PAGES):
        join.push(np.array([1000 + page]), np.array([0]), np.array([page]))
        step = join.advance()
        assert all(PAGES <= page + 1 - id_ <= 2 * PAGES for id_ in step.unmatched.tolist())
    assert join.pending <= 2 * PAGES


@pytest.mark.parametrize("scanned", [0, 3, 9, 10, 14])
def test_a_tuple_that_comes_after_r_has_grown_finds_the_new_pages(scanned: int) -> None:
    growing = VirtualRelation(100, VirtualDisk(FREE_DISK, VirtualClock()), page_rows=10)
    join = EarlyReleaseMeshJoin(growing, 3000)
    nowhere = np.full(50, 1000)
    join.push(nowhere, nowhere, np.arange(50))
    for _ in range(scanned):
        join.advance()
    growing.grow(155)
    join.push(np.array([5, 99, 105, 154, 155]), np.zeros(5, np.int64), np.arange(50, 55))
    steps = list(join.finish())
    assert sorted(id_ for step in steps if step.matches for id_ in step.matches.ids.tolist()) == [50, 51, 52, 53]
    assert join.statistics.unmatched == 51
