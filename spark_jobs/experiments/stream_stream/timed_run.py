"""A join tree on streams that come at a given rate, on a virtual clock: how many results there are when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_jobs.experiments.stream_stream.interval_streams import IntervalStreams
from spark_jobs.experiments.stream_stream.join_tree import JoinTree
from spark_jobs.experiments.virtual_relation import VirtualClock

Float64Array = NDArray[np.float64]


@dataclass(frozen=True)
class TimedRun:
    """What a run gave.

    Attributes:
        seconds: float64, shape (t,): at the end of each tick, the end of the run last.
        results: int64, shape (t,): results so far.
        tuples: int64, shape (t,): tuples of each stream so far.
        memory_tuples: int64, shape (t,): tuples in memory.
        starts: int64, shape (m,): of all results, in order.
        ended_seconds: when the last tuple came.
    """

    seconds: Float64Array
    results: NDArray[np.int64]
    tuples: NDArray[np.int64]
    memory_tuples: NDArray[np.int64]
    starts: NDArray[np.int64]
    ended_seconds: float

    def results_at(self, seconds: float) -> int:
        """Results so far at a time."""
        return int(self.results[np.searchsorted(self.seconds, seconds, side="right") - 1]) if seconds > 0 else 0


def timed_run(
    tree: JoinTree,
    streams: IntervalStreams,
    disk: VirtualClock,
    tick: float,
    tuples_at: Callable[[float], int],
) -> TimedRun:
    """Play streams to a join tree; after each tick its operators may do a step, if the disk has done what came before.

    Args:
        tree: the operators, whose disk charges the clock.
        streams: what comes.
        disk: when the disk is done with all that it was asked for.
        tick: seconds between two arrivals of some tuples of each stream.
        tuples_at: how many tuples of each stream have come at a time, in seconds; grows beyond all of them.
    """
    rows: list[tuple[float, int, int, int]] = []
    starts: list[NDArray[np.int64]] = []
    now, come, found = 0.0, 0, 0

    def take(some: NDArray[np.int64]) -> None:
        nonlocal found
        starts.append(some)
        found += len(some)

    while come < streams.tuples:
        now += tick
        until = min(tuples_at(now), streams.tuples)
        disk.seconds = max(disk.seconds, now)
        idle = disk.seconds == now
        for stream in range(len(streams.lows)):
            take(tree.arrive(stream, streams.part(stream, come, until)))
        come = until
        if idle:
            take(tree.advance())
        # What needs the disk is there when the disk is done.
        rows.append((max(now, disk.seconds), found, come, sum(join.tuples_in_memory() for join in tree.joins)))
    ended = now
    for some in tree.finish():
        take(some)
        rows.append((max(now, disk.seconds), found, come, 0))
    seconds, results, tuples, memory = np.array(rows).T
    results, tuples, memory = (values.astype(np.int64) for values in (results, tuples, memory))
    return TimedRun(seconds, results, tuples, memory, np.concatenate(starts), ended)
