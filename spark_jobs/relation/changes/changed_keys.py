"""A bounded set of keys of R that have changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]

MOST_KEYS = 100_000


class ChangedKeys:
    """Codes of changed keys, at most so many; beyond that, any key may have changed. Pickles by its array.

    Two keys may share a hash code: then an unchanged one is taken for a changed one, never the other way round.

    Args:
        most: how many distinct codes it takes.

    Attributes:
        overflow: whether any key may have changed.
    """

    def __init__(self, most: int = MOST_KEYS) -> None:
        self.overflow = False
        self._most = most
        self._codes: Int64Array = np.empty(0, np.int64)  # ascending, distinct

    def __len__(self) -> int:
        return len(self._codes)

    def add(self, codes: Int64Array) -> None:
        """Add codes, int64, shape (n,). O((n + size) log n)."""
        if self.overflow or not len(codes):
            return
        union = np.union1d(self._codes, codes)
        if len(union) > self._most:
            self.add_all()
        else:
            self._codes = union

    def add_all(self) -> None:
        """From now on any key may have changed."""
        self.overflow = True
        self._codes = self._codes[:0]

    def clear(self) -> None:
        """Forget all changes."""
        self.overflow = False
        self._codes = self._codes[:0]

    def contains(self, codes: Int64Array) -> NDArray[np.bool_]:
        """Which keys may have changed.

        Args:
            codes: int64, shape (n,).

        Returns:
            bool, shape (n,). O(n log size).
        """
        if self.overflow or not len(self._codes):
            return np.full(len(codes), self.overflow)
        places = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        return np.asarray(self._codes[places] == codes)

    def copy(self) -> ChangedKeys:
        """The set as it is now, for a batch that must not see it change. O(1)."""
        other = ChangedKeys(self._most)
        other.overflow, other._codes = self.overflow, self._codes
        return other
