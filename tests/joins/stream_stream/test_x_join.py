"""XJoin: results in its three stages, and what its policies flush and read."""

from __future__ import annotations

import random

import numpy as np
import pytest

from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream import create
from spark_jobs.joins.stream_stream.activation import NEVER, Activation
from spark_jobs.joins.stream_stream.flushing import balanced, biased, largest_partition, whole_partition
from spark_jobs.joins.stream_stream.predicates import Band, Equality
from tests.joins.stream_stream.partitioned_joins import PartitionedRun

SMALL = 4_000
COUNT = 120
ALL_KEYS = list(range(COUNT))


def test_a_pause_joins_what_arrived_after_its_partner_had_left() -> None:
    run = PartitionedRun("x_join", SMALL, activation=Activation(0.0))
    assert run.arrive(0, ALL_KEYS) == 0
    on_disk = run.join.tuples_on_disk()
    assert on_disk > 0
    late = [i for i in ALL_KEYS[: COUNT // 2] if i < on_disk][:10]
    before = run.arrive(1, late)
    assert before + run.pause() == len(late)
    assert not run.join.is_work
    assert run.finish() == 0


def test_without_pauses_what_memory_missed_is_joined_at_the_end() -> None:
    run = PartitionedRun("x_join", SMALL)
    met = run.arrive(0, ALL_KEYS) + run.arrive(1, ALL_KEYS)
    assert 0 < met < COUNT
    assert run.finish() == COUNT - met


def test_with_room_for_all_nothing_is_written() -> None:
    run = PartitionedRun("x_join", 1 << 16)
    assert run.arrive(0, ALL_KEYS) + run.arrive(1, ALL_KEYS[::-1]) == COUNT
    assert not run.join.is_work
    assert run.finish() == 0
    assert run.spill.pages_written == 0


@pytest.mark.parametrize("policy", [largest_partition(), whole_partition(), balanced(), biased()], ids=lambda p: p.name)
def test_every_flushing_policy_keeps_all_results(policy: object) -> None:
    randomness = random.Random(1)
    run = PartitionedRun("x_join", 12_000, flushing=policy, partitions=4)
    for _ in range(12):
        for stream in range(2):
            run.arrive(stream, randomness.choices(range(200), k=40 * (stream + 1)))
        run.pause()
    run.finish()


def test_a_low_activation_threshold_gives_results_sooner_and_reads_more() -> None:
    late, read = [], []
    for activation in (Activation(0.0), Activation(0.5), NEVER):
        randomness = random.Random(2)
        run = PartitionedRun("x_join", 8_000, activation=activation, partitions=2)
        for _ in range(20):
            for stream in range(2):
                run.arrive(stream, randomness.choices(range(300), k=25))
            run.pause()
        read.append(run.spill.pages_read)
        late.append(run.finish())
    assert late[0] < late[1] < late[2]
    assert read[0] > read[1] > read[2] == 0


MEMORY = np.array([[5, 1, 4, 0], [2, 9, 4, 3]])
DISK = np.array([[90, 0, 0, 0], [0, 0, 0, 0]])


def test_policies_flush_what_they_say() -> None:
    assert largest_partition().choose(MEMORY, DISK) == [(1, 1)]
    assert whole_partition().choose(MEMORY, DISK) == [(0, 1), (1, 1)]
    # 10 against 18 in memory: without partition 1, 9 against 9.
    assert balanced().choose(MEMORY, DISK) == [(0, 1), (1, 1)]
    # Without partition 1, 6 against 6; but it is too small, unless size hardly counts.
    alike = np.array([[6, 2], [6, 1]])
    assert balanced().choose(alike, DISK[:, :2]) == [(0, 0), (1, 0)]
    assert balanced(0.1).choose(alike, DISK[:, :2]) == [(0, 1), (1, 1)]
    assert biased().choose(MEMORY, DISK) == [(0, 0)]
    assert biased(larger=1).choose(MEMORY, DISK) == [(1, 1)]
    # What stream 0, which brought most, has in memory is too little by now.
    assert biased().choose(np.array([[2, 1], [9, 8]]), DISK[:, :2]) == [(1, 0)]


@pytest.mark.parametrize("policy", [largest_partition(), whole_partition(), balanced(), biased()], ids=lambda p: p.name)
def test_every_policy_flushes_something_whatever_memory_holds(policy: object) -> None:
    randomness = np.random.default_rng(3)
    for _ in range(50):
        memory = randomness.integers(0, 3, (2, 4)) * randomness.integers(0, 2, (2, 1))
        memory[0, 0] += not memory.any()
        disk = randomness.integers(0, 50, (2, 4))
        chosen = policy.choose(memory, disk)  # type: ignore[attr-defined]
        assert all(memory[stream, partition] for stream, partition in chosen)
        assert chosen


def test_what_it_cannot_join_is_refused_with_what_can() -> None:
    with pytest.raises(ValueError, match="take temporal_join"):
        create("x_join", 2, Band(3), 1 << 16, VirtualSpill())
    with pytest.raises(ValueError, match="up to 2 streams"):
        create("x_join", 3, Equality(), 1 << 16, VirtualSpill())
    with pytest.raises(ValueError, match="at least 0"):
        Activation(-1)
