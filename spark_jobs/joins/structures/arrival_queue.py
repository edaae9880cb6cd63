"""Stream tuples in order of arrival, taken out from the oldest on: a ring of fixed size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]

_TUPLE_BYTES = 16


class ArrivalQueue:
    """First in, first out: keys and ids of waiting stream tuples.

    Args:
        capacity: how many tuples it takes.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        # Column 0: keys, column 1: ids. Tuple number n (counted from the first ever) is at n modulo capacity.
        self._ring: Int64Array = np.zeros((capacity, 2), np.int64)
        self._taken = 0
        self._arrived = 0

    @staticmethod
    def bytes_for(capacity: int) -> int:
        """Memory of this capacity, in bytes."""
        return capacity * _TUPLE_BYTES

    def __len__(self) -> int:
        return self._arrived - self._taken

    def append(self, keys: Int64Array, ids: Int64Array) -> None:
        """Add tuples as the newest; there must be room. O(n).

        Args:
            keys: int64, shape (n,).
            ids: int64, shape (n,).
        """
        places = np.arange(self._arrived, self._arrived + len(keys)) % self.capacity
        self._ring[places, 0] = keys
        self._ring[places, 1] = ids
        self._arrived += len(keys)

    def oldest(self, count: int) -> tuple[Int64Array, Int64Array]:
        """Keys and ids of the oldest tuples, which stay; int64, shape (min(count, length),) each. O(count)."""
        count = min(count, len(self))
        tuples = self._ring[np.arange(self._taken, self._taken + count) % self.capacity]
        return np.ascontiguousarray(tuples[:, 0]), np.ascontiguousarray(tuples[:, 1])

    def drop_oldest(self, count: int) -> None:
        """Take out that many of the oldest tuples; there must be as many. O(1)."""
        self._taken += count

    def memory_used(self) -> int:
        """Bytes of its array."""
        return self._ring.nbytes

    def check(self) -> None:
        """Assert that the counters fit the capacity. O(1)."""
        assert 0 <= self._taken <= self._arrived <= self._taken + self.capacity
