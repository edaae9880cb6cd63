"""What only MESHJOIN promises: a cycle over R for every tuple, and w = h_S / k of them for every page."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.experiments.virtual_relation import FREE_DISK, VirtualClock, VirtualDisk, VirtualRelation
from spark_jobs.joins.semi_stream.base import Page
from spark_jobs.joins.semi_stream.mesh_join import MeshJoin
from tests.joins.memory_relation import MemoryRelation
from tests.joins.semi_stream.saturated_run import SaturatedRun

PAGES = 10
NOWHERE = 1000


def relation() -> MemoryRelation:
    """Keys 0 to 99, ten on a page."""
    return MemoryRelation(range(100), page_rows=10)


def push(join: MeshJoin, keys: list[int]) -> None:
    first = join.statistics.pushed
    # Page numbers that mean nothing: a MESHJOIN does not ask for them.
    join.push(np.array(keys), np.full(len(keys), 999), np.arange(first, first + len(keys)))


def take_in(join: MeshJoin, keys: list[int]) -> None:
    """Push, and let a step take the tuples into memory."""
    push(join, keys)
    join.advance()


def chunk_size(join: MeshJoin) -> int:
    assert join.capacity % PAGES == 0
    return join.capacity // PAGES


def even_join(blocking: bool = True) -> tuple[MeshJoin, MemoryRelation]:
    """A join whose capacity is a multiple of the pages of R."""
    pages = relation()
    return next(
        (join, pages)
        for memory in range(3000, 5000)
        if (join := MeshJoin(pages, memory, blocking=blocking)).capacity % PAGES == 0
    )


def test_it_waits_for_a_chunk() -> None:
    join, pages = even_join()
    chunk = chunk_size(join)
    push(join, [5] * (chunk - 1))
    assert not join.reads_next
    assert join.advance().matches is None
    assert join.pending == chunk - 1
    push(join, [6])
    assert join.reads_next
    step = join.advance()
    assert step.matches is not None
    assert len(step.matches.ids) == chunk
    assert pages.page_reads == {0: 1}


def test_finish_waits_for_nothing_and_afterwards_it_waits_again() -> None:
    join, _ = even_join()
    push(join, [5])
    assert sum(len(step.matches.ids) for step in join.finish() if step.matches is not None) == 1
    push(join, [5])
    assert join.advance().matches is None


def test_without_blocking_it_goes_on_with_the_tuples_that_are_there() -> None:
    join, pages = even_join(blocking=False)
    push(join, [15])
    join.advance()
    assert pages.page_reads == {0: 1}
    assert join.advance().matches is not None
    assert join.pending == 0


@pytest.mark.parametrize("head_start", [0, 1, 7])
def test_a_chunk_expires_when_it_has_seen_every_page_and_not_before(head_start: int) -> None:
    join, _ = even_join(blocking=False)
    for _ in range(head_start):
        take_in(join, [NOWHERE])
    push(join, [NOWHERE, NOWHERE])
    first = join.statistics.pushed - 2
    for _ in range(PAGES - 1):
        assert first not in join.advance().unmatched
    assert {first, first + 1} <= set(join.advance().unmatched.tolist())


def test_a_cycle_reads_every_page_once_and_takes_in_as_many_tuples_as_memory_holds() -> None:
    for memory in (700, 1000, 1300, 3001, 4000):
        pages = relation()
        join = MeshJoin(pages, memory)
        run = SaturatedRun(join, pages, list(range(100)) * 40)
        buffered = join.room
        for cycle in range(1, 6):
            for _ in range(PAGES):
                run.step()
            assert pages.page_reads == dict.fromkeys(range(PAGES), cycle)
            # Before its last step a cycle has refilled the stream buffer, but for that step's own chunk.
            last_chunk = join.capacity - (PAGES - 1) * join.capacity // PAGES
            assert cycle * join.capacity - last_chunk <= run.pushed - buffered <= cycle * join.capacity


def test_in_steady_state_every_page_settles_a_chunk() -> None:
    join, pages = even_join()
    chunk = chunk_size(join)
    stream = np.random.default_rng(1).integers(0, 100, 40 * join.capacity).tolist()
    run = SaturatedRun(join, pages, stream)
    for _ in range(2 * PAGES):
        run.step()
    settled = join.statistics.matched
    before = run.pushed
    for _ in range(10 * PAGES):
        run.step()
    assert run.pushed - before == 10 * PAGES * chunk
    assert abs(join.statistics.matched - settled - 10 * PAGES * chunk) < join.capacity


def test_a_joined_tuple_keeps_its_place_for_the_whole_cycle() -> None:
    join, pages = even_join()
    run = SaturatedRun(join, pages, [5] * 10_000)  # All of them match on the first page.
    for _ in range(3 * PAGES):
        run.step()
    # Of three cycles' tuples all but the stream buffer's are in memory or expired, though none waits there
    # for more than nine pages.
    assert run.pushed <= 3 * join.capacity + join.room + join.pending


def test_when_r_is_larger_than_memory_has_places_all_is_settled_still() -> None:
    pages = MemoryRelation(range(100), page_rows=1)
    join = MeshJoin(pages, 400)
    assert join.capacity < pages.page_count
    run = SaturatedRun(join, pages, [3, 50, 99, NOWHERE] * 20)
    run.finish()
    assert sorted(run.settled) == list(range(80))
    assert join.statistics.unmatched == 20


def test_r_may_be_in_any_order() -> None:
    order = np.random.default_rng(2).permutation(PAGES)

    class Unordered(MemoryRelation):
        def read_page(self, number: int) -> Page:
            page = super().read_page(int(order[number]))
            return Page(page.keys[::-1], page.rows[::-1], page.size)

    pages = Unordered(range(100), page_rows=10)
    join = MeshJoin(pages, 3000)
    run = SaturatedRun(join, pages, list(range(-20, 120)) * 5)
    run.finish()
    assert (join.statistics.matched, join.statistics.unmatched) == (500, 200)


@dataclass
class Growing:
    """A MESHJOIN over an R that grows by pages of ten; ids count up."""

    relation: VirtualRelation = field(
        default_factory=lambda: VirtualRelation(100, VirtualDisk(FREE_DISK, VirtualClock()), page_rows=10)
    )
    matched: set[int] = field(default_factory=set)
    unmatched: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.join = MeshJoin(self.relation, 3000, blocking=False)

    def advance(self, steps: int) -> None:
        for _ in range(steps):
            step = self.join.advance()
            if step.matches is not None:
                self.matched |= set(step.matches.ids.tolist())
            self.unmatched.update(step.unmatched.tolist())
            self.join.check()
            assert self.join.memory_used() <= 3000


@pytest.mark.parametrize("scanned", range(12))
def test_a_tuple_that_comes_after_r_has_grown_finds_the_new_pages(scanned: int) -> None:
    run = Growing()
    push(run.join, [NOWHERE, NOWHERE])  # keep the scan going
    run.advance(min(scanned, PAGES))
    push(run.join, [NOWHERE])
    run.advance(scanned - PAGES)
    run.relation.grow(155)
    push(run.join, [5, 99, 105, 154, 155])
    run.advance(40)
    assert run.matched == {3, 4, 5, 6}
    assert set(run.unmatched) == {0, 1, 2, 7}
    assert set(run.unmatched.values()) == {1}
    assert run.join.pending == 0


def test_a_waiting_tuple_finds_new_pages_that_the_scan_comes_to_in_its_cycle() -> None:
    run = Growing()
    push(run.join, [NOWHERE] * 3)
    run.advance(4)
    push(run.join, [105])
    run.advance(2)
    run.relation.grow(155)
    run.advance(40)
    assert run.matched == {3}


def test_new_pages_that_it_does_not_come_to_leave_a_tuple_unmatched_rather_than_waiting() -> None:
    run = Growing()
    push(run.join, [NOWHERE] * 3)
    run.advance(4)
    push(run.join, [105])
    run.advance(7)
    run.relation.grow(155)  # The scan has begun anew: the tuple is going to have seen its R before the new pages.
    run.advance(3)
    assert run.unmatched[3] == 1


def test_more_pages_than_chunks_can_be_told_apart_delay_expiry_only() -> None:
    run = Growing()
    run.relation.grow(100 * PAGES)
    for number in range(300):
        while not run.join.room:
            run.advance(1)
        push(run.join, [4 * number])
        run.advance(1)
    run.advance(300)
    assert run.join.pending == 0
    assert run.matched == set(range(250))
    assert set(run.unmatched) == set(range(250, 300))


def test_the_stream_buffer_is_shed_first_then_the_newest_chunk() -> None:
    join, _ = even_join(blocking=False)
    take_in(join, [50, 51])
    take_in(join, [52, 53])
    push(join, [54, 55])
    assert join.shed(3).tolist() == [4, 5, 3]
    assert join.shed(9).tolist() == [2, 1, 0]
    assert join.pending == 0


def test_the_budget_is_split_into_page_buffer_and_tuples() -> None:
    pages = MemoryRelation(range(10_000), page_rows=10)
    join = MeshJoin(pages, 1_000_000)
    assert 999_900 < join.memory_used() + pages.page_bytes <= 1_000_000
    assert join.capacity > (1_000_000 - pages.page_bytes - 8 * pages.page_count) / 26
    with pytest.raises(MemoryBudgetError, match=r"mesh_join was given 100 bytes.*a page of R"):
        MeshJoin(pages, 100)
