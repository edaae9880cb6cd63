"""Every semi-stream join does the same as a dictionary, whatever its memory and however its input is cut."""

from __future__ import annotations

import contextlib
import random

import numpy as np
import pytest

from spark_jobs.errors import JoinStateError, MemoryBudgetError
from spark_jobs.joins.semi_stream import ALGORITHMS, create
from spark_jobs.joins.semi_stream.base import Page
from tests.conformance.semi_stream_run import Run, least_memory
from tests.joins.memory_relation import MemoryRelation

LOWEST, HIGHEST = -(2**63), 2**63 - 1
BATCHES = [1, 2, 7, 49, 50, 51, 100]


@pytest.fixture(params=ALGORITHMS)
def algorithm(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["smallest", "small", "ample"])
def memory(request: pytest.FixtureRequest, algorithm: str) -> int:
    least = least_memory(algorithm, relation())
    return {"smallest": least, "small": least + least // 2, "ample": least + 100_000}[request.param]


def relation() -> MemoryRelation:
    """Even keys 0 to 198, eight on a page, where there is room for sixteen."""
    return MemoryRelation(range(0, 200, 2), page_rows=8, most_rows=16)


def stream(count: int, seed: int = 1) -> list[int]:
    """Skewed keys from -10 to 209: repeated ones, ones that are not in R, and ones outside its range."""
    randomness = random.Random(seed)
    return [int(220 * randomness.random() ** 2) - 10 for _ in range(count)]


@pytest.mark.parametrize("batch", BATCHES)
def test_joins_like_a_dictionary_however_the_stream_is_cut(algorithm: str, memory: int, batch: int) -> None:
    run = Run(algorithm, relation(), memory)
    keys = stream(300)
    for start in range(0, len(keys), batch):
        run.push(keys[start : start + batch])
        run.advance()
    run.finish()
    run.assert_equals_dictionary_join()


@pytest.mark.parametrize("seed", range(3))
def test_joins_like_a_dictionary_with_random_cuts_and_pauses(algorithm: str, memory: int, seed: int) -> None:
    randomness = random.Random(seed)
    run = Run(algorithm, relation(), memory)
    rest = stream(300, seed)
    while rest:
        cut = randomness.randrange(60)
        run.push(rest[:cut])
        rest = rest[cut:]
        for _ in range(randomness.randrange(5)):
            run.advance()
    run.finish()
    run.assert_equals_dictionary_join()


def test_all_is_settled_while_the_stream_pauses(algorithm: str, memory: int) -> None:
    run = Run(algorithm, relation(), memory)
    for _ in range(3):
        run.push(stream(40))
        run.finish()
        assert run.join.pending == 0
        run.advance()
    run.assert_equals_dictionary_join()


def test_an_empty_stream_settles_nothing_and_reads_nothing(algorithm: str, memory: int) -> None:
    run = Run(algorithm, relation(), memory)
    run.push([])
    step = run.advance()
    assert step.matches is None
    assert not step.unmatched.size
    assert list(run.join.finish()) == []
    assert run.join.shed(5).size == 0
    assert run.join.statistics.bytes_read == 0


def test_tuples_of_one_key_are_all_joined(algorithm: str, memory: int) -> None:
    run = Run(algorithm, relation(), memory)
    run.push([42] * 120 + [43] * 120 + [44] * 120)
    run.finish()
    run.assert_equals_dictionary_join()


def test_tuples_without_match_are_reported_once(algorithm: str, memory: int) -> None:
    run = Run(algorithm, relation(), memory)
    run.push([-5, 7, 7, 1001, -5])
    run.finish()
    assert run.unmatched == {0, 1, 2, 3, 4}
    assert not run.found


def test_extreme_keys_are_keys_like_others(algorithm: str) -> None:
    extremes = [LOWEST, LOWEST + 1, -1, 0, 1, HIGHEST - 1, HIGHEST]
    present = MemoryRelation(extremes[::2], page_rows=2)
    run = Run(algorithm, present, least_memory(algorithm, present))
    run.push(extremes * 2)
    run.finish()
    run.assert_equals_dictionary_join()


def test_a_page_on_which_no_tuple_matches_settles_its_tuples(algorithm: str, memory: int) -> None:
    run = Run(algorithm, relation(), memory)
    run.push([17, 19, 21, 23])
    run.finish()
    assert run.unmatched == {0, 1, 2, 3}


def test_what_is_read_finds_its_memory_free(algorithm: str) -> None:
    memory = least_memory(algorithm, MemoryRelation(range(0, 200, 2)))

    class Watched(MemoryRelation):
        run: Run | None = None

        def read_page(self, number: int) -> Page:
            return self.fitting(super().read_page(number))

        def lookup(self, keys: np.ndarray, ids: np.ndarray) -> Page:
            return self.fitting(super().lookup(keys, ids))

        def fitting(self, page: Page) -> Page:
            assert self.run is not None
            assert self.run.join.memory_used() + page.size <= memory
            return page

    watched = Watched(range(0, 200, 2))
    watched.run = Run(algorithm, watched, memory)
    watched.run.push(stream(300))
    watched.run.finish()


def test_an_empty_relation_matches_nothing(algorithm: str) -> None:
    nothing = MemoryRelation([])
    run = Run(algorithm, nothing, least_memory(algorithm, nothing))
    run.push([1, 2, 2])
    run.finish()
    assert run.unmatched == {0, 1, 2}


@pytest.mark.parametrize("seed", range(3))
def test_a_tuple_is_joined_or_unmatched_or_shed_never_two_of_them(algorithm: str, memory: int, seed: int) -> None:
    randomness = random.Random(seed)
    run = Run(algorithm, relation(), memory)
    rest = stream(200, seed)
    while rest:
        cut = randomness.randrange(30)
        run.push(rest[:cut])
        rest = rest[cut:]
        if randomness.random() < 0.5:
            run.advance()
        if randomness.random() < 0.3:
            run.give_up(randomness.randrange(40))
    run.finish()
    assert run.settled == set(range(200))
    assert run.shed
    run.assert_equals_dictionary_join()


def test_all_can_be_shed_and_the_join_goes_on(algorithm: str, memory: int) -> None:
    run = Run(algorithm, relation(), memory)
    run.push([2, 4, 6])
    run.give_up(1000)
    assert run.join.pending == 0
    run.push([2, 4, 6])
    run.finish()
    run.assert_equals_dictionary_join()


def test_tuples_that_come_to_r_while_it_is_joined_are_found(algorithm: str, memory: int) -> None:
    growing = relation()
    run = Run(algorithm, growing, memory)
    for key in (1, 3, 77, 199, 1001):
        growing.insert(key)
        run.push([key, key, key + 1])
        run.advance()
    growing.insert(-9)
    run.push([-9])
    run.finish()
    run.assert_equals_dictionary_join()


def test_a_waiting_tuple_finds_what_came_to_its_page_meanwhile(algorithm: str, memory: int) -> None:
    growing = relation()
    run = Run(algorithm, growing, memory)
    run.push([5])
    growing.insert(5)
    run.finish()
    assert 0 in run.found


def test_pages_that_come_to_r_are_read_for_those_that_wait_for_them(algorithm: str, memory: int) -> None:
    growing = relation()
    run = Run(algorithm, growing, memory)
    run.push(stream(100))
    for first in (300, 320, 340):
        growing.append_page(range(first, first + 14, 2))
        run.push([first, first + 1, first + 12, 4, *stream(20), first + 2])
        run.advance()
    run.finish()
    assert run.found.keys() >= {id_ for id_, key in enumerate(run.keys) if key in (320, 322, 352)}
    run.assert_equals_dictionary_join()


class Unreliable(MemoryRelation):
    """Fails every third access."""

    accesses = 0

    def _fail(self) -> None:
        self.accesses += 1
        if self.accesses % 3 == 0:
            raise OSError("R can't be read just now")

    def read_page(self, number: int) -> Page:
        self._fail()
        return super().read_page(number)

    def lookup(self, keys: np.ndarray, ids: np.ndarray) -> Page:
        self._fail()
        return super().lookup(keys, ids)


def test_nothing_is_lost_when_r_cannot_be_read_now_and_then(algorithm: str, memory: int) -> None:
    run = Run(algorithm, Unreliable(range(0, 200, 2), page_rows=8, most_rows=16), memory)
    keys, ended = stream(200), False
    while keys or not ended:
        part, keys = keys[: run.join.room], keys[run.join.room :]
        with contextlib.suppress(OSError):
            run.push(part)
            part = []
            run.advance()
        keys = part + keys
        if not keys:
            with contextlib.suppress(OSError):
                run.finish()
                ended = True
    run.assert_equals_dictionary_join()


def test_two_drains_at_once_both_end(algorithm: str, memory: int) -> None:
    run = Run(algorithm, relation(), memory)
    run.push([2, 50, 120])
    outer = run.join.finish()
    run.take(next(outer))
    run.finish()
    run.push([4, 60])
    for step in outer:
        run.take(step)
    run.assert_equals_dictionary_join()


def test_negative_pages_are_refused(algorithm: str) -> None:
    join = create(algorithm, relation(), 100_000)
    with pytest.raises(JoinStateError, match="numbered from 0"):
        join.push(np.array([1, 2]), np.array([0, -1]), np.arange(2))
    assert join.pending == 0


def test_more_than_there_is_room_for_is_refused(algorithm: str) -> None:
    join = create(algorithm, relation(), least_memory(algorithm, relation()))
    keys = np.arange(join.room + 1)
    with pytest.raises(JoinStateError, match="there is room for"):
        join.push(keys, np.zeros_like(keys), keys)
    assert join.pending == 0


def test_arrays_of_different_length_are_refused(algorithm: str) -> None:
    join = create(algorithm, relation(), 100_000)
    with pytest.raises(JoinStateError, match="one each is needed"):
        join.push(np.arange(3), np.arange(2), np.arange(3))


def test_narrow_strided_and_read_only_arrays_are_taken(algorithm: str) -> None:
    join = create(algorithm, relation(), 100_000)
    keys = np.array([2, 0, 4, 0, 6, 0], np.int32)[::2]
    pages = relation().pages_of(keys)
    pages.setflags(write=False)
    join.push(keys, pages, np.arange(3))
    assert sum(len(step.matches.ids) for step in join.finish() if step.matches is not None) == 3


def test_too_little_memory_is_refused_with_the_amount_that_would_do(algorithm: str) -> None:
    least = least_memory(algorithm, relation())
    with pytest.raises(MemoryBudgetError, match=r"given .* bytes.*give it more memory"):
        create(algorithm, relation(), least - 1)
    with pytest.raises(MemoryBudgetError):
        create(algorithm, relation(), 0)


def test_an_unknown_algorithm_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"hash_join.*hybrid_join"):
        create("hash_join", relation(), 1000)
