"""How often keys were seen, for far more keys than could be counted one by one: a count-min sketch of byte counters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.structures.hashing import mix
from spark_jobs.joins.structures.jit import kernel, read_only

Int64Array = NDArray[np.int64]

MOST_FREQUENT = 255
# A key has four counters, all in one block of the size of a cache line, one in each quarter of it.
_BLOCK_COUNTERS = 64
_ROWS = 4
_ROW_COUNTERS = _BLOCK_COUNTERS // _ROWS
_COUNTERS_PER_KEY = 16

_HALF_BITS = np.uint64(32)
_ROW_BITS = np.uint64(4)
_ROW_MASK = np.uint64(_ROW_COUNTERS - 1)


class FrequencySketch:
    """Estimated frequencies: never below the true one (up to 255), seldom above it for the frequent keys.

    Count-min with conservative update, halved now and then by its owner, so that it forgets. 16 bytes
    for each key that shall be told apart.

    Args:
        keys: how many frequent keys it shall tell apart from the rest.
    """

    def __init__(self, keys: int) -> None:
        self._counters: NDArray[np.uint8] = np.zeros((_block_count(keys), _BLOCK_COUNTERS), np.uint8)

    @staticmethod
    def bytes_for(keys: int) -> int:
        """Memory of a sketch for that many keys, in bytes."""
        return _block_count(keys) * _BLOCK_COUNTERS

    def add(self, keys: Int64Array, counts: Int64Array) -> Int64Array:
        """Count keys, and estimate how often each has been seen, these counts included.

        Args:
            keys: int64, shape (n,).
            counts: int64, shape (n,), at least 0.

        Returns:
            int64, shape (n,), at most 255 each. O(n).
        """
        estimates = np.empty(len(keys), np.int64)
        _add(self._counters, read_only(keys), read_only(counts), estimates)
        return estimates

    def estimates(self, keys: Int64Array) -> Int64Array:
        """How often each key has been seen, int64, shape (n,). O(n)."""
        return self.add(keys, np.zeros(len(keys), np.int64))

    def halve(self) -> None:
        """Halve every count, rounding down. O(memory)."""
        np.right_shift(self._counters, 1, out=self._counters)

    def memory_used(self) -> int:
        """Bytes of its array."""
        return self._counters.nbytes


def _block_count(keys: int) -> int:
    return -(-keys * _COUNTERS_PER_KEY // _BLOCK_COUNTERS)


@kernel
def _add(counters: NDArray[np.uint8], keys: Int64Array, counts: Int64Array, estimates: Int64Array) -> None:
    blocks = np.uint64(len(counters))
    for i in range(len(keys)):
        code = mix(keys[i])
        block = ((code >> _HALF_BITS) * blocks) >> _HALF_BITS
        places = code
        least = np.int64(MOST_FREQUENT)
        for row in range(_ROWS):
            least = min(least, np.int64(counters[block, row * _ROW_COUNTERS + np.int64(places & _ROW_MASK)]))
            places >>= _ROW_BITS
        raised = min(MOST_FREQUENT, least + counts[i])
        places = code
        for row in range(_ROWS):
            place = row * _ROW_COUNTERS + np.int64(places & _ROW_MASK)
            counters[block, place] = max(counters[block, place], raised)
            places >>= _ROW_BITS
        estimates[i] = raised
