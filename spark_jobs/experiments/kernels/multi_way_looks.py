"""What AMJoin spends on a tuple that finds no partner, and how that grows with the tuples it holds."""

from __future__ import annotations

from functools import partial

import numpy as np

from spark_jobs.experiments.kernels.measured_figure import MeasuredFigure, interleaved, seconds
from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.am_join import AMJoin
from spark_jobs.joins.stream_stream.base import Tuples
from spark_jobs.joins.stream_stream.m_join import MJoin
from spark_jobs.joins.stream_stream.predicates import Equality

TARGET = 60.0
# Cost per tuple flat from the smallest state to the largest.
MOST_GROWTH = 1.3
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
STREAMS = 5
_ROUND = 100_000
_BATCH = 10_000
# A smaller state is made anew for each round, so that it stays about as small.
_LARGE = 1_000_000
_BYTES_A_TUPLE = 110
_MOST_ROUNDS = 16


class HeldStreams:
    """Joins of five streams that hold tuples of different keys, and get more of these.

    Args:
        make: makes a join.
        held: tuples that each holds.
    """

    def __init__(self, make: type[AMJoin] | type[MJoin], held: int) -> None:
        self._make = make
        self._held = held
        self._more = min(_ROUND, held)
        self._kept = self._filled() if held >= _LARGE else None

    def round(self) -> float:
        """Nanoseconds for each of 100,000 tuples more, none of which finds a partner."""
        spent = 0.0
        for _ in range(_ROUND // self._more):
            filled = self._kept or self._filled()
            spent += seconds(partial(filled.bring, self._more))
        return 1e9 * spent / _ROUND

    def _filled(self) -> _Filled:
        filled = _Filled(self._make, self._held)
        filled.bring(self._held)
        return filled


class _Filled:
    """A join, and the keys that are to come."""

    def __init__(self, make: type[AMJoin] | type[MJoin], held: int) -> None:
        most = held + (_MOST_ROUNDS * _ROUND if held >= _LARGE else held)
        self._join = make(STREAMS, Equality(), _BYTES_A_TUPLE * most + (1 << 16), VirtualSpill())
        # As after memory has been full once: what the system does for a page's first use is not the join's work.
        self._join._tables.tuples.view(np.uint8).fill(0)
        self._keys = np.random.default_rng(held).permutation(most)
        self._sent = 0

    def bring(self, count: int) -> None:
        """Let tuples arrive, the streams in turn."""
        for first in range(self._sent, self._sent + count, _BATCH):
            keys = self._keys[first : min(first + _BATCH, self._sent + count)]
            stream = first // _BATCH % STREAMS
            self._join.arrive(stream, Tuples(np.arange(first, first + len(keys)), keys))
        self._sent += count
        assert not self._join.values_flushed


def measure(repeats: int) -> list[MeasuredFigure]:
    """Nanoseconds a tuple for AMJoin and MJoin by the size of the state, and what the largest costs by the smallest."""
    cases = {
        (name, size): HeldStreams(make, size).round
        for size in SIZES
        for name, make in (("AMJoin", AMJoin), ("MJoin", MJoin))
    }
    observed = interleaved(cases, min(repeats, _MOST_ROUNDS - 1))
    figures = [
        MeasuredFigure.of(
            f"{name}, no partner, {STREAMS} streams, {size:,} tuples held",
            times,
            "ns a tuple",
            TARGET if name == "AMJoin" else None,
        )
        for (name, size), times in observed.items()
    ]
    growth = [
        large / small for large, small in zip(observed["AMJoin", SIZES[-1]], observed["AMJoin", SIZES[0]], strict=True)
    ]
    name = f"AMJoin, {SIZES[-1]:,} tuples held by {SIZES[0]:,}"
    return [*figures, MeasuredFigure.of(name, growth, "ratio", MOST_GROWTH)]
