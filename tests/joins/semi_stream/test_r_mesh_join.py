"""What only R-MESHJOIN promises: segments whose number has nothing to do with the disk buffer."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.joins.semi_stream.mesh_join import MeshJoin
from spark_jobs.joins.semi_stream.r_mesh_join import RMeshJoin
from tests.joins.memory_relation import MemoryRelation
from tests.joins.semi_stream.saturated_run import SaturatedRun

PAGES = 20


def relation() -> MemoryRelation:
    return MemoryRelation(range(10 * PAGES), page_rows=10)


@pytest.mark.parametrize("segments", [1, 2, 7, 20, 100])
def test_every_number_of_segments_reads_through_a_buffer_of_one_page(segments: int) -> None:
    pages = relation()
    join = RMeshJoin(pages, 5000, segments=segments)
    run = SaturatedRun(join, pages, list(range(-10, 210)) * 10)
    while run.pushed < len(run.stream):
        step = run.step()
        assert step.matches is None or step.matches.page.size <= pages.page_bytes
        assert join.memory_used() <= 5000
    run.finish()
    assert sorted(run.settled) == list(range(2200))
    assert join.statistics.unmatched == 200


def test_a_chunk_is_taken_in_at_the_first_page_of_a_segment_only() -> None:
    pages = relation()
    join = RMeshJoin(pages, 10_000, segments=4)
    run = SaturatedRun(join, pages, [199] * 5000)
    for _ in range(3 * PAGES):
        run.step()
    grown = [
        number
        for number, (before, after) in enumerate(zip(run.taken_in, run.taken_in[1:], strict=False))
        if after > before
    ]
    assert {number % 5 for number in grown} == {0}
    assert len(grown) == 3 * 4


def test_it_waits_at_the_start_of_a_segment_and_not_within_it() -> None:
    pages = relation()
    join = RMeshJoin(pages, 10_000, segments=4)
    chunk = join.capacity // 4
    key = np.array([199])
    join.push(np.full(chunk + 1, 199), np.full(chunk + 1, 19), np.arange(chunk + 1))
    for _ in range(5):
        assert join.reads_next
        assert join.advance().matches is not None
    assert not join.reads_next
    assert join.advance().matches is None
    assert sum(pages.page_reads.values()) == 5
    join.push(key, key // 10, np.array([chunk + 1]))
    assert join.advance().matches is None


def test_a_tuple_that_comes_while_none_waits_does_not_wait_for_the_next_segment() -> None:
    pages = relation()
    join = RMeshJoin(pages, 10_000, segments=2, blocking=False)
    for id_, key in enumerate([5, 15, 25]):
        join.push(np.array([key]), np.array([key // 10]), np.array([id_]))
        assert join.advance().matches is not None
        assert join.pending == 0


def test_in_a_cycle_it_takes_in_as_many_tuples_as_mesh_join_of_the_same_capacity() -> None:
    taken_in = []
    for make in (MeshJoin, RMeshJoin):
        pages = relation()
        join = make(pages, 20_000)
        run = SaturatedRun(join, pages, list(range(200)) * 100)
        for _ in range(PAGES):
            run.step()
        before = run.pushed
        for _ in range(5 * PAGES):
            run.step()
        taken_in.append((run.pushed - before) / join.capacity)
    assert taken_in == [5, 5]


def test_as_r_grows_segments_get_longer_and_stay_as_many() -> None:
    pages = relation()
    join = RMeshJoin(pages, 10_000, segments=4)
    assert join.segment_pages == 5
    larger = MemoryRelation(range(10 * 4 * PAGES), page_rows=10)
    assert RMeshJoin(larger, 10_000, segments=4).segment_pages == 20
    assert RMeshJoin(pages, 10_000).segment_pages == 1


def test_no_segments_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one segment, not 0"):
        RMeshJoin(relation(), 10_000, segments=0)
