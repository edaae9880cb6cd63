"""Double pipelined, early and hash-merge join: what each does unlike XJoin."""

from __future__ import annotations

import random

import pytest

from spark_jobs.joins.stream_stream.flushing import biased
from spark_jobs.joins.stream_stream.merge_strategies import MaxFanIn
from tests.joins.stream_stream.partitioned_joins import PartitionedRun

COUNT = 150


def permuted(seed: int) -> list[int]:
    return random.Random(seed).sample(range(COUNT), COUNT)


def played(run: PartitionedRun, left: list[int], right: list[int]) -> None:
    for first in range(0, max(len(left), len(right)), 20):
        run.arrive(0, left[first : first + 20])
        run.arrive(1, right[first : first + 20])
        run.pause()


def test_a_partition_that_left_memory_gives_no_result_before_the_end() -> None:
    run = PartitionedRun("double_pipelined_hash_join", 4_000, partitions=1)
    run.arrive(0, list(range(COUNT)))
    assert run.join.tuples_on_disk() > 0
    assert run.arrive(1, list(range(COUNT))) == 0
    assert not run.join.is_work
    assert run.finish() == COUNT


def test_marked_tuples_join_with_each_other_at_the_end() -> None:
    run = PartitionedRun("double_pipelined_hash_join", 8_000, partitions=2)
    randomness = random.Random(5)
    for _ in range(30):
        for stream in range(2):
            run.arrive(stream, randomness.choices(range(60), k=9))
    assert run.finish() > 0


@pytest.mark.parametrize("memory", [4_000, 1 << 16])
def test_tuples_with_one_match_at_most_leave_when_it_is_found(memory: int) -> None:
    run = PartitionedRun("early_hash_join", memory, cardinality="one_to_one")
    played(run, permuted(1), permuted(2))
    held = run.join.tuples_in_memory() + run.join.tuples_on_disk()
    assert held == 2 * COUNT - run.join.statistics.purged
    assert run.join.statistics.purged > 0
    if memory > 4_000:
        assert held == 0
    run.finish()


@pytest.mark.parametrize("many", [0, 1])
def test_only_the_side_with_one_match_leaves(many: int) -> None:
    randomness = random.Random(3)
    sides = [permuted(4), permuted(4)]
    sides[many] = randomness.choices(range(2 * COUNT), k=2 * COUNT)
    run = PartitionedRun("early_hash_join", 1 << 16, cardinality="many_to_one" if many == 0 else "one_to_many")
    played(run, *sides)
    unique = COUNT
    assert run.join.tuples_in_memory() == unique + sum(key >= COUNT for key in sides[many])
    run.finish()


@pytest.mark.parametrize("cardinality", ["many_to_one", "one_to_many"])
def test_dropped_tuples_save_writing(cardinality: str) -> None:
    randomness = random.Random(6)
    sides = [permuted(7), permuted(7)]
    sides[cardinality == "one_to_many"] = randomness.choices(range(COUNT), k=4 * COUNT)
    written = []
    for promised in (cardinality, "many_to_many"):
        run = PartitionedRun("early_hash_join", 8_000, cardinality=promised, partitions=2)
        played(run, *sides)
        run.finish()
        written.append(run.join.statistics.flushed)
    assert written[0] < written[1]


def test_biased_flushing_keeps_the_smaller_stream_in_memory() -> None:
    """Its matches come early: more than with XJoin, which treats both streams alike."""
    small, large = permuted(8)[:100], random.Random(9).choices(range(COUNT), k=10 * COUNT)
    early = []
    for algorithm, policies in (("early_hash_join", {"flushing": biased(larger=1)}), ("x_join", {})):
        run = PartitionedRun(algorithm, 7_000, partitions=4, **policies)
        early.append(run.arrive(0, small) + sum(run.arrive(1, large[i : i + 20]) for i in range(0, len(large), 20)))
        run.finish()
    assert early[0] > 2 * early[1]


def test_pauses_join_what_lies_on_disk_on_both_sides() -> None:
    """XJoin leaves those pairs to the end."""
    late = []
    for algorithm, policies in (("hash_merge_join", {}), ("x_join", {"partitions": 1})):
        run = PartitionedRun(algorithm, 12_000, **policies)
        run.arrive(0, list(range(COUNT)))
        run.arrive(1, list(range(1_000, 1_300)))
        run.arrive(1, list(range(COUNT)))
        run.arrive(1, list(range(2_000, 2_300)))
        run.pause()
        late.append(run.finish())
    assert late[0] < late[1]


def test_merge_strategies_of_the_progressive_merge_join_serve_here() -> None:
    run = PartitionedRun("hash_merge_join", 12_000, strategy=MaxFanIn())
    randomness = random.Random(10)
    for _ in range(40):
        for stream in range(2):
            run.arrive(stream, randomness.choices(range(100), k=15))
        run.pause()
    run.finish()


@pytest.mark.parametrize("algorithm", ["x_join", "double_pipelined_hash_join", "early_hash_join", "hash_merge_join"])
def test_one_key_that_all_tuples_have_is_joined_in_any_memory(algorithm: str) -> None:
    run = PartitionedRun(algorithm, 12_000)
    for _ in range(40):
        for stream in range(2):
            run.arrive(stream, [7] * 9)
        run.pause()
    run.finish()
