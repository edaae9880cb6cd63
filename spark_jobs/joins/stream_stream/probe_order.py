"""In which order a tuple's key is looked up among the other streams: policies of the n-way joins (002 §1, §2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]


class ProbeOrder(Protocol):
    """Where a tuple is looked up first, second, ..., by the stream that it is of."""

    def order(self, stream: int, streams: int) -> Int64Array:
        """The other streams in turn, int64, shape (streams - 1,)."""

    def learn(self, stream: int, probes: Int64Array, hits: Int64Array) -> None:
        """Take in what came of it: int64, shape (streams,), tuples looked up in each stream, those found there."""


class FixedOrder:
    """The same order for ever.

    Args:
        first: all streams, each once; a tuple skips its own. By number if left out.
    """

    def __init__(self, first: Sequence[int] | None = None) -> None:
        self._first = first

    def order(self, stream: int, streams: int) -> Int64Array:
        """As it was given.

        Raises:
            ValueError: it does not name each stream once.
        """
        turns = range(streams) if self._first is None else self._first
        if sorted(turns) != list(range(streams)):
            raise ValueError(f"an order names each of {streams} streams once, by number from 0: not {list(turns)}")
        return np.array([other for other in turns if other != stream], np.int64)

    def learn(self, stream: int, probes: Int64Array, hits: Int64Array) -> None:
        """Nothing."""


class ObservedSelectivity:
    """The stream in which fewest are found comes first (002 §1, after Avnur and Hellerstein), as observed lately.

    What is observed of a stream is how many of those found in the streams before it are found there too: where
    selectivities are not independent, that is what the greedy order of Babu et al. goes by.

    Args:
        remembered: probes after which what was seen has half its weight.
    """

    def __init__(self, remembered: int = 10_000) -> None:
        if remembered < 1:
            raise ValueError(f"an order remembers at least one probe, not {remembered}")
        self._remembered = remembered
        # Of each stream's tuples: probes of each other stream, and hits.
        self._seen: NDArray[np.float64] = np.zeros((0, 2, 0))

    def order(self, stream: int, streams: int) -> Int64Array:
        """By hits a probe, ascending; a stream that was not looked into yet is taken to have one tuple in two."""
        self._know(streams)
        probes, hits = self._seen[stream]
        turns = np.argsort((hits + 1) / (probes + 2), kind="stable")
        return turns[turns != stream]

    def learn(self, stream: int, probes: Int64Array, hits: Int64Array) -> None:
        """What was seen before fades as more is seen."""
        self._know(len(probes))
        kept = 0.5 ** (probes / self._remembered)
        self._seen[stream] = self._seen[stream] * kept + np.stack((probes, hits))

    def _know(self, streams: int) -> None:
        if len(self._seen) != streams:
            self._seen = np.zeros((streams, 2, streams))
