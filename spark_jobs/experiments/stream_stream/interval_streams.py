"""The streams of 004 §7: intervals that begin at each value once, in random order; one tuple at each instant."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.stream_stream.base import Tuples

Int64Array = NDArray[np.int64]


class IntervalStreams:
    """Streams of as many tuples each.

    Args:
        streams: how many.
        tuples: of each.
        length: of the intervals.
        window: how long a tuple is valid: a sliding window over instants.
        seed: equal seeds give equal streams.
    """

    def __init__(self, streams: int, tuples: int, length: int, window: int, seed: int) -> None:
        randomness = np.random.default_rng(seed)
        self.tuples = tuples
        self.lows: list[Int64Array] = [randomness.permutation(tuples).astype(np.int64) + 1 for _ in range(streams)]
        self._length = length
        self._window = window

    def part(self, stream: int, first: int, until: int) -> Tuples:
        """Tuples first to until - 1 of a stream; their ids count from 0, their starts from 1."""
        ids = np.arange(first, min(until, self.tuples))
        lows = self.lows[stream][ids]
        return Tuples(ids, lows, lows + self._length, ids + 1, ids + 1 + self._window)
