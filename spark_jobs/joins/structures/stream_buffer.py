"""The stream buffer SB_1: stream tuples that have come, before the join looks at them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]


_COLUMNS = 3
_NONE: Int64Array = np.empty(0, np.int64)


class TupleColumns(NamedTuple):
    """Stream tuples, a column for each part of them; int64, shape (n,) each.

    Attributes:
        keys: their join keys.
        pages: the page of R on which each key would be.
        ids: what their caller calls them.
    """

    keys: Int64Array
    pages: Int64Array
    ids: Int64Array

    def part(self, start: int, stop: int) -> TupleColumns:
        """Those from `start` to before `stop`. O(1): views."""
        return TupleColumns(self.keys[start:stop], self.pages[start:stop], self.ids[start:stop])

    @staticmethod
    def concatenate(parts: list[TupleColumns]) -> TupleColumns:
        """All tuples of some parts, in order."""
        if not parts:
            return TupleColumns(_NONE, _NONE, _NONE)
        return TupleColumns(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class StreamBuffer:
    """First in, first out, in arrays of fixed size; from its end tuples can be given up.

    Args:
        capacity: how many tuples it takes.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"a stream buffer takes at least one tuple, not {capacity}")
        self.capacity = capacity
        # Rows: keys, pages, ids. The tuples stand from `_first` to before `_end`, the oldest first.
        self._tuples: Int64Array = np.zeros((_COLUMNS, capacity), np.int64)
        self._first = 0
        self._end = 0

    @staticmethod
    def bytes_for(capacity: int) -> int:
        """Memory of this capacity, in bytes."""
        return _COLUMNS * 8 * capacity

    def __len__(self) -> int:
        return self._end - self._first

    def append(self, tuples: TupleColumns) -> None:
        """Add tuples as the newest; there must be room. O(n), and O(length) once the arrays' end is reached."""
        count = len(tuples.ids)
        if self._end + count > self.capacity:
            self._tuples[:, : len(self)] = self._tuples[:, self._first : self._end].copy()
            self._first, self._end = 0, len(self)
        for row, values in zip(self._tuples, tuples, strict=True):
            row[self._end : self._end + count] = values
        self._end += count

    def take_oldest(self, count: int) -> TupleColumns:
        """Take out the first to come, up to so many. O(count)."""
        return self._taken(self._first, min(self._first + count, self._end))

    def take_newest(self, count: int) -> TupleColumns:
        """Take out the last to come, up to so many. O(count)."""
        stop = self._end
        self._end -= min(count, len(self))
        return TupleColumns(*self._tuples[:, self._end : stop].copy())

    def take_sample(self, count: int, random: np.random.Generator) -> TupleColumns:
        """Take out a random sample of so many, every subset equally likely. O(length)."""
        chosen = np.zeros(len(self), bool)
        chosen[random.choice(len(self), min(count, len(self)), replace=False)] = True
        waiting = self._tuples[:, self._first : self._end]
        sample, kept = waiting[:, chosen], waiting[:, ~chosen]
        self._end = self._first + kept.shape[1]
        self._tuples[:, self._first : self._end] = kept
        return TupleColumns(*sample)

    def memory_used(self) -> int:
        """Bytes of its array."""
        return self._tuples.nbytes

    def _taken(self, start: int, stop: int) -> TupleColumns:
        self._first = stop
        return TupleColumns(*self._tuples[:, start:stop].copy())
