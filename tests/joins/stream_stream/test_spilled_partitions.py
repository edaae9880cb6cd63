"""Partitions in memory and on disk: every pair of tuples meets once, whatever is flushed, read and given up when."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.base import Results
from spark_jobs.joins.stream_stream.spilled_partitions import SpilledPartitions, paired

KEYS = 30
MOST = 1 << 16


class Streams:
    """Two streams of random keys that go through partitions, every pair noted as it is told.

    Keys die: no stream brings them any more, and their tuples may be given up.
    """

    def __init__(self, memory: int, partitions: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.disk = VirtualSpill(page_bytes=256)
        self.parts = SpilledPartitions(memory, self.disk, algorithm="test", partitions=partitions)
        self.keys: list[list[int]] = [[], []]
        self.dead: set[int] = set()
        self.pairs: set[tuple[int, int]] = set()
        self.unmatched: set[tuple[int, int]] = set()

    def take(self, results: Results) -> None:
        for pair in zip(*results.ids.tolist(), strict=True):
            assert pair not in self.pairs, f"{pair} was told twice"
            assert self.unmatched.isdisjoint(enumerate(pair))
            self.pairs.add(pair)
        for tuple_ in zip(*results.unmatched.tolist(), strict=True):
            assert tuple_ not in self.unmatched
            self.unmatched.add(tuple_)
        self.parts.check()

    def arrive(self) -> None:
        stream = self.random.randrange(2)
        memory = self.parts.memory
        while not memory.room:
            self.flush()
        count = self.random.randint(1, min(self.parts.buffered, memory.room))
        living = [key for key in range(KEYS) if key not in self.dead]
        keys = np.array(self.random.choices(living, k=count))
        ids = np.arange(count) + len(self.keys[stream])
        self.keys[stream] += keys.tolist()
        found = memory.probe(1 - stream, keys, mark=True)
        memory.mark_matched(self.parts.store(stream, keys, ids)[found.rows])
        self.take(Results(paired(stream, ids[found.rows], found.ids)))

    def flush(self) -> None:
        self.parts.flush(self.random.randrange(2), self.random.randrange(self.parts.partitions))
        self.parts.check()

    def pass_over(self) -> None:
        stream, partition = self.random.randrange(2), self.random.randrange(self.parts.partitions)
        alone = not self.parts.on_disk[1 - stream, partition]
        self.take(self.parts.pass_over(stream, partition, self.leaving if alone else None))

    def settle(self) -> None:
        while self.parts.memory.room < self.parts.buffered:
            self.flush()
        for results in self.parts.settle(self.random.randrange(self.parts.partitions), self.leaving):
            self.take(results)

    def die(self) -> None:
        if len(self.dead) < KEYS - 1:
            self.dead.add(self.random.randrange(KEYS))

    def leaving(self, _: int, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.isin(keys, list(self.dead))

    def finish(self) -> None:
        for results in self.parts.settle_all():
            self.take(results)

    def expected(self) -> set[tuple[int, int]]:
        left, right = self.keys
        return {(i, j) for i in range(len(left)) for j in range(len(right)) if left[i] == right[j]}

    def assert_all_was_told(self) -> None:
        assert self.pairs == self.expected()
        matched = {tuple_ for pair in self.pairs for tuple_ in enumerate(pair)}
        assert self.unmatched == {(s, i) for s in range(2) for i in range(len(self.keys[s]))} - matched
        assert not self.disk.extents


def play(streams: Streams, steps: Sequence[str], count: int) -> None:
    for _ in range(count):
        getattr(streams, streams.random.choice(steps))()
    streams.finish()
    streams.assert_all_was_told()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("memory", "partitions"), [(0, 1), (0, 4), (3_000, 1), (3_000, 2), (MOST, 4)])
@pytest.mark.parametrize(
    "steps",
    [
        ["arrive", "arrive", "flush"],
        ["arrive", "arrive", "flush", "pass_over"],
        ["arrive", "arrive", "arrive", "flush", "settle"],
        ["arrive", "arrive", "arrive", "flush", "pass_over", "settle"],
    ],
    ids=["flushed", "passed over", "settled", "all"],
)
def test_each_pair_is_told_once_and_each_tuple_without_a_match(
    memory: int, partitions: int, steps: list[str], seed: int
) -> None:
    play(Streams(memory or least_memory(partitions), partitions, seed), steps, 60)


@pytest.mark.parametrize("seed", range(3))
def test_settled_keys_that_died_leave_the_disk(seed: int) -> None:
    streams = Streams(4_000, 2, seed)
    steps = ["arrive"] * 4 + ["flush", "settle", "die"]
    play(streams, steps, 100)
    assert streams.dead


def test_a_disk_part_is_read_once_where_the_smaller_side_fits_into_memory() -> None:
    streams = Streams(MOST, 1, 0)
    for _ in range(10):
        streams.arrive()
    for stream in range(2):
        streams.parts.flush(stream, 0)
    written, read = streams.disk.pages_written, streams.disk.pages_read
    streams.finish()
    assert streams.disk.pages_read - read == written
    streams.assert_all_was_told()


def test_a_budget_without_room_for_a_tuple_is_refused() -> None:
    with pytest.raises(MemoryBudgetError, match="test was given 100 bytes, but a directory"):
        SpilledPartitions(100, VirtualSpill(), algorithm="test", partitions=1)


def least_memory(partitions: int) -> int:
    for memory in range(100, MOST):
        try:
            SpilledPartitions(memory, VirtualSpill(page_bytes=256), algorithm="test", partitions=partitions)
        except MemoryBudgetError:
            continue
        return memory
    raise AssertionError
