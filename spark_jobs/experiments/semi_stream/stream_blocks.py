"""The stream's keys and their pages of R, drawn in large blocks and handed out in small parts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from spark_jobs.experiments.numbered_relation import NumberedRelation

Int64Array = NDArray[np.int64]

Stream = Callable[[int], Int64Array]
"""Draws the join keys of the next n stream tuples."""

_BLOCK = 1 << 16


class StreamBlocks:
    """Takes the cost of a draw off the single step of a join.

    Args:
        stream: draws keys.
        relation: knows their pages.
    """

    def __init__(self, stream: Stream, relation: NumberedRelation) -> None:
        self._relation = relation
        self.draw_from(stream)

    def draw_from(self, stream: Stream) -> None:
        """Go on with another stream, and forget what was drawn of the former one and not yet taken."""
        self._stream = stream
        self._keys: Int64Array = np.empty(0, np.int64)
        self._pages: Int64Array = np.empty(0, np.int64)
        self._taken = 0

    def take(self, count: int) -> tuple[Int64Array, Int64Array]:
        """Keys and pages of the next stream tuples: at least one, at most `count`, which is at least 1."""
        if self._taken == len(self._keys):
            self._keys = self._stream(_BLOCK)
            self._pages = self._relation.pages_of(self._keys)
            self._taken = 0
        part = slice(self._taken, self._taken + count)
        keys, pages = self._keys[part], self._pages[part]
        self._taken += len(keys)
        return keys, pages
