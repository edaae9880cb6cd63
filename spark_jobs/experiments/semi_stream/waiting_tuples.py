"""Ids for stream tuples in a join, and when each of them came: arrays that recycled ids index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_FIRST_IDS = 1 << 10


class WaitingTuples:
    """Hands ids out and takes them back. Every call costs O(tuples it is given), amortised.

    Ids stay below twice the most tuples that ever waited at once, so that arrays indexed by them stay
    small, however long the stream.

    Args:
        columns: how many numbers to remember of each tuple.
    """

    def __init__(self, columns: int) -> None:
        self._remembered: list[FloatArray] = [np.zeros(0)] * columns
        self._free: Int64Array = np.empty(0, np.int64)
        self._free_count = 0

    def enter(self, count: int, values: Sequence[float | FloatArray]) -> Int64Array:
        """Ids for new tuples, int64, shape (count,); for each column the value of all or of each is remembered."""
        while count > self._free_count:
            self._make_ids()
        self._free_count -= count
        ids = self._free[self._free_count : self._free_count + count].copy()
        for column, value in zip(self._remembered, values, strict=True):
            column[ids] = value
        return ids

    def leave(self, ids: Int64Array) -> list[float]:
        """Take the ids of settled tuples back; for each column the sum of what was remembered of them."""
        sums = [float(column[ids].sum()) for column in self._remembered]
        self._free[self._free_count : self._free_count + len(ids)] = ids
        self._free_count += len(ids)
        return sums

    def _make_ids(self) -> None:
        before = len(self._free)
        after = max(_FIRST_IDS, 2 * before)
        free = np.empty(after, np.int64)
        free[: self._free_count] = self._free[: self._free_count]
        made = after - before
        # The lowest on top: they are handed out first.
        free[self._free_count : self._free_count + made] = np.arange(after - 1, before - 1, -1)
        self._free = free
        self._free_count += made
        self._remembered = [np.concatenate([column, np.zeros(made)]) for column in self._remembered]
