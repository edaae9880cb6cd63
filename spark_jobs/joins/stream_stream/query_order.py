"""In which order an n-way join asks the other streams' sweep areas; it may change from tuple to tuple (004 §6)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]

# Counts are halved when so many queries have been counted, so that what is old weighs less and less.
_MEMORY = 100_000


class QueryOrder(ABC):
    """Tells the order, and learns what queries find."""

    @abstractmethod
    def order(self, stream: int, streams: int) -> list[int]:
        """The other streams, in the order in which tuples of this one are to ask them."""

    def observe(self, stream: int, queries: int, found: int) -> None:
        """So many queries of a stream's area have found so many tuples."""
        return

    def state(self) -> dict[str, Int64Array]:
        """What it has learned."""
        return {}

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """The reverse of `state`."""
        return


class ByStreamNumber(QueryOrder):
    """Always stream 0 first, then 1, and so on: a left-deep tree."""

    def order(self, stream: int, streams: int) -> list[int]:
        """Ascending."""
        return [other for other in range(streams) if other != stream]


class ByObservedSelectivity(QueryOrder):
    """First where the fewest partners have been found per query: most tuples fail there, and cost nothing more.

    Args:
        streams: how many there are.
    """

    def __init__(self, streams: int) -> None:
        self._counts: Int64Array = np.ones((2, streams), np.int64)

    def order(self, stream: int, streams: int) -> list[int]:
        """By found / asked, ascending; by number where that is equal."""
        asked, found = self._counts
        ranked = np.argsort(found / asked, kind="stable").tolist()
        return [other for other in ranked if other != stream]

    def observe(self, stream: int, queries: int, found: int) -> None:
        """Count; O(1)."""
        self._counts[:, stream] += queries, found
        if self._counts[0, stream] > _MEMORY:
            self._counts[:, stream] = self._counts[:, stream] // 2 + 1

    def state(self) -> dict[str, Int64Array]:
        """The counts."""
        return {"counts": self._counts}

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """The reverse of `state`."""
        self._counts[:] = state["counts"]
