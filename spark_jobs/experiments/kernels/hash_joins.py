"""Hash joins of two streams: what a tuple costs in memory by the size of the state, and what XJoin adds to that."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from spark_jobs.experiments.kernels.measured_figure import MeasuredFigure, interleaved, seconds
from spark_jobs.experiments.virtual_relation import SOLID_STATE_DISK, VirtualClock, VirtualDisk
from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream import create
from spark_jobs.joins.stream_stream.base import StreamStreamJoin, Tuples
from spark_jobs.joins.stream_stream.predicates import Equality
from spark_jobs.joins.structures.hashed_streams import HashedStreams

# Nanoseconds for a tuple: to insert it, to probe, to emit one match.
TARGET = 100.0
MOST_RATIO = 1.3
STATES = (10_000, 100_000, 1_000_000, 10_000_000)
# What XJoin may lose against the symmetric hash join, as a part of the disk's time.
MOST_LOST = 1.0
_MEMORY_SHARE = 0.1
_BATCH = 5_000
_MOST_MEASURED = 500_000


class Growing:
    """A symmetric hash join whose state grows by half, each new tuple finding one match; then it is made anew.

    Args:
        state: tuples, on average while it is measured.
    """

    def __init__(self, state: int) -> None:
        self._measured = min(_BATCH, state // 4) * max(1, min(_MOST_MEASURED, state // 2) // _BATCH)
        self._held = state - self._measured // 2
        self._memory = 2 * HashedStreams.bytes_for(state + self._measured, 2, 64)
        randomness = np.random.default_rng(state)
        half = self._held // 2
        # Each stream holds keys of its own; what comes has keys of the other.
        self._keys = [randomness.permutation(half), half + randomness.permutation(half)]

    def nanoseconds(self) -> float:
        """For each of the new tuples."""
        join = create("symmetric_hash_join", 2, Equality(), self._memory, VirtualSpill())
        for stream, keys in enumerate(self._keys):
            join.arrive(stream, Tuples(np.arange(len(keys)), keys))
        each = self._measured // 2
        coming = [
            Tuples(np.arange(len(self._keys[0]), len(self._keys[0]) + each), self._keys[1 - stream][:each])
            for stream in range(2)
        ]
        taken = seconds(partial(_arrive, join, coming))
        assert join.statistics.early == 2 * each
        return taken / (2 * each) * 1e9


class Whole(NamedTuple):
    """What a join of two whole streams took.

    Attributes:
        own: seconds of processor time.
        disk: seconds of the virtual disk.
        early: results before the streams ended, as a part of all.
    """

    own: float
    disk: float
    early: float


def whole(algorithm: str, memory_share: float, tuples: int = 1_000_000) -> Whole:
    """Join two streams of unique keys, each tuple with one match.

    Args:
        algorithm: its name.
        memory_share: of what the tables of all tuples take; 1 for the symmetric hash join.
        tuples: of each stream.
    """
    disk = VirtualDisk(SOLID_STATE_DISK, VirtualClock())
    memory = int(memory_share * HashedStreams.bytes_for(2 * tuples, 2, 64))
    join = create(algorithm, 2, Equality(), memory, VirtualSpill(disk))
    randomness = np.random.default_rng(0)
    ids = np.arange(tuples)
    streams = [Tuples(ids, randomness.permutation(tuples)) for _ in range(2)]
    own = seconds(partial(_arrive, join, streams)) + seconds(lambda: list(join.finish()))
    statistics = join.statistics
    assert statistics.early + statistics.late == tuples
    return Whole(own, disk.clock(), statistics.early / tuples)


def measure(repeats: int) -> list[MeasuredFigure]:
    """The symmetric hash join by the size of its state, and the joins that spill beside it.

    What grows with the state is the wait for memory alone: 10 million tuples take 400 MB, which no cache holds.
    """
    costs = interleaved({state: Growing(state).nanoseconds for state in STATES}, repeats)
    figures = [
        MeasuredFigure.of(f"symmetric hash join, {state:,} tuples held", values, "ns a tuple", TARGET)
        for state, values in costs.items()
    ]
    ratios = [last / first for first, last in zip(costs[STATES[0]], costs[STATES[-1]], strict=True)]
    figures.append(MeasuredFigure.of(f"{STATES[-1]:,} held against {STATES[0]:,}", ratios, "times", MOST_RATIO))
    algorithms = {"symmetric_hash_join": 1.0}
    algorithms |= dict.fromkeys(
        ("x_join", "double_pipelined_hash_join", "early_hash_join", "hash_merge_join"), _MEMORY_SHARE
    )
    runs = interleaved({name: partial(whole, name, share) for name, share in algorithms.items()}, repeats)
    in_memory = [run.own for run in runs["symmetric_hash_join"]]
    for name in list(algorithms)[1:]:
        title = f"{name}, {_MEMORY_SHARE:.0%} of the memory"
        own = [run.own / base for run, base in zip(runs[name], in_memory, strict=True)]
        figures.append(MeasuredFigure.of(f"{title}: own work", own, "x symmetric hash join"))
        lost = [(run.own - base) / run.disk for run, base in zip(runs[name], in_memory, strict=True)]
        target = MOST_LOST if name == "x_join" else None
        figures.append(MeasuredFigure.of(f"{title}: lost besides the disk's time", lost, "x the disk's time", target))
        figures.append(
            MeasuredFigure.of(f"{title}: before the end", [run.early for run in runs[name]], "of the results")
        )
    return figures


def _arrive(join: StreamStreamJoin, streams: list[Tuples]) -> None:
    """Let tuples come batch by batch, of each stream in turn."""
    for first in range(0, len(streams[0].ids), _BATCH):
        for stream, tuples in enumerate(streams):
            join.arrive(stream, tuples.part(slice(first, first + _BATCH)))
