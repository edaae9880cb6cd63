"""Every join of streams gives what the naive join does, whatever its memory and however its inputs are cut."""

from __future__ import annotations

import random
from functools import cache

import pytest

from spark_jobs.errors import JoinStateError, MemoryBudgetError
from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream import ALGORITHMS
from tests.conformance.stream_stream_run import FOR_EVER, Case, Run, random_streams
from tests.joins.stream_stream.naive_join import Row

AMPLE = 1 << 22
LOWEST, HIGHEST = -(2**63), 2**63 - 1
CASES = [
    Case(algorithm.name, predicate, streams)
    for algorithm in ALGORITHMS.values()
    for predicate in algorithm.predicates
    for streams in range(2, min(5, algorithm.most_streams) + 1)
] + [
    Case(algorithm.name, predicate, streams, any_order=True)
    for algorithm in ALGORITHMS.values()
    if algorithm.any_order
    for predicate in algorithm.predicates
    for streams in ((2, 3) if predicate == "equality" else (3,))
]
least_memory = cache(Case.least_memory)


SIZES = {"smallest": 0, "small": 2000, "ample": AMPLE}
# Without a disk what does not fit is refused, so there is ample memory only.
SIZED_CASES = [(case, size) for case in CASES for size in SIZES if size == "ample" or ALGORITHMS[case.algorithm].spills]


def name_of(case: Case) -> str:
    return f"{case.algorithm}-{case.predicate}-{case.streams}{'-any_order' if case.any_order else ''}"


each_case = pytest.mark.parametrize("case", CASES, ids=name_of)
each_sized_case = pytest.mark.parametrize(
    ("case", "size"), SIZED_CASES, ids=[f"{name_of(case)}-{size}" for case, size in SIZED_CASES]
)


def memory_for(case: Case, size: str) -> int:
    return AMPLE if size == "ample" else least_memory(case) + SIZES[size]


def counts(case: Case) -> list[int]:
    """As many tuples as the naive join can try in all combinations; fewer where a predicate joins many of them."""
    tuples = {2: 150, 3: 70, 4: 45, 5: 35} if case.predicate == "equality" else {2: 75, 3: 50, 4: 25, 5: 18}
    return [tuples[case.streams]] * case.streams


@pytest.mark.parametrize("seed", range(3))
@each_sized_case
def test_joins_like_the_naive_join_with_random_cuts_and_pauses(case: Case, size: str, seed: int) -> None:
    randomness = random.Random(seed)
    run = Run(case, memory_for(case, size))
    run.play(random_streams(case, randomness, counts(case)), randomness)
    run.assert_equals_naive_join()


@each_sized_case
def test_all_of_a_stream_may_come_before_the_others(case: Case, size: str) -> None:
    streams = random_streams(case, random.Random(1), counts(case))
    run = Run(case, memory_for(case, size))
    for stream in reversed(range(case.streams)):
        run.arrive(stream, streams[stream])
    run.finish()
    run.assert_equals_naive_join()


@each_sized_case
def test_a_stream_that_stays_empty_matches_nothing(case: Case, size: str) -> None:
    tuples = counts(case)
    tuples[1] = 0
    randomness = random.Random(2)
    run = Run(case, memory_for(case, size))
    run.play(random_streams(case, randomness, tuples), randomness)
    run.assert_equals_naive_join()
    assert not run.found


@each_case
def test_streams_that_are_all_empty_give_nothing_and_write_nothing(case: Case) -> None:
    run = Run(case, AMPLE)
    for stream in range(case.streams):
        run.arrive(stream, [])
    run.finish()
    run.assert_equals_naive_join()
    assert run.spill.pages_written == 0


@each_sized_case
def test_all_background_work_can_be_done_while_the_inputs_pause(case: Case, size: str) -> None:
    randomness = random.Random(3)
    streams = random_streams(case, randomness, counts(case))
    run = Run(case, memory_for(case, size))
    for first in range(0, len(streams[0]), 20):
        for stream, rows in enumerate(streams):
            run.arrive(stream, rows[first : first + 20])
        steps = 0
        while run.join.is_work:
            run.advance()
            steps += 1
            assert steps < 10_000, "the background work does not end"
    run.finish()
    run.assert_equals_naive_join()


@each_sized_case
def test_what_the_disk_holds_is_removed_at_the_end(case: Case, size: str) -> None:
    randomness = random.Random(4)
    run = Run(case, memory_for(case, size))
    run.play(random_streams(case, randomness, counts(case)), randomness)
    assert not run.spill.extents
    assert run.join.tuples_on_disk() == 0


@pytest.mark.parametrize(
    ("case", "size"),
    # The arithmetic of the user's own predicate here ends before the integers do.
    [(case, size) for case, size in SIZED_CASES if case.predicate != "own"],
    ids=[f"{name_of(case)}-{size}" for case, size in SIZED_CASES if case.predicate != "own"],
)
def test_keys_at_the_ends_of_the_integers_are_keys_like_others(case: Case, size: str) -> None:
    keys = [LOWEST, LOWEST + 1, LOWEST + 3, -1, 0, HIGHEST - 4, HIGHEST - 2, HIGHEST - 1]
    end = 9 if case.validity else FOR_EVER
    rows = [Row(number, key, key + 1, 0, end) for number, key in enumerate(keys)]
    run = Run(case, memory_for(case, size))
    for stream in range(case.streams):
        run.arrive(stream, rows)
    run.finish()
    run.assert_equals_naive_join()


@each_case
def test_after_the_end_nothing_is_taken_and_there_is_no_second_end(case: Case) -> None:
    run = Run(case, AMPLE)
    run.finish()
    with pytest.raises(JoinStateError, match="make a new operator"):
        run.join.finish()
    with pytest.raises(JoinStateError, match="make a new operator"):
        run.arrive(0, random_streams(case, random.Random(5), counts(case))[0])


@each_case
def test_a_budget_too_small_for_a_step_is_refused_with_what_it_takes(case: Case) -> None:
    with pytest.raises(MemoryBudgetError, match=f"{case.algorithm} .*bytes"):
        case.joined(1, VirtualSpill())
