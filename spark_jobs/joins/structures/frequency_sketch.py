"""How often keys were seen, for far more keys than could be counted one by one: a count-min sketch of byte counters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.hashing import mix
from spark_jobs.columns.jit import kernel, kernel_part, read_only

Int64Array = NDArray[np.int64]

MOST_FREQUENT = 255
# A key has four counters, all in one block of the size of a cache line, one in each quarter of it.
_BLOCK_COUNTERS = 64
_ROWS = 4
_ROW_COUNTERS = _BLOCK_COUNTERS // _ROWS
_COUNTERS_PER_KEY = 16
# Keys that stand for any that was never seen.
_STRANGERS: Int64Array = np.random.default_rng(0).integers(-(2**63), 2**63, 256)

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

    def add_each(self, keys: Int64Array, rows: Int64Array, least: int, noise: int) -> Int64Array:
        """Count the key of every row once, and find the frequent ones among them.

        One call for a page of R, however few of its rows were found: as array expressions it would take ten, and
        most pages hold nothing frequent.

        Args:
            keys: int64, shape (m,), distinct.
            rows: int64, shape (n,), positions among `keys`; one may stand several times.
            least: how often a frequent key has been seen at least, these rows included.
            noise: to be taken off the estimates.

        Returns:
            int64, shape (3, f): rows of the frequent keys, distinct; how often each stands here; and how often it
            has been seen: its estimate less the noise, or how often it stands here if that is more. O(n + m).
        """
        frequent = np.empty((3, len(rows)), np.int64)
        return frequent[:, : _add_each(self._counters, keys, rows, (least, noise), frequent)]

    def estimates(self, keys: Int64Array) -> Int64Array:
        """How often each key has been seen, int64, shape (n,). O(n)."""
        return self.add(keys, np.zeros(len(keys), np.int64))

    def noise(self) -> int:
        """What is estimated for a key that was never seen, because all its counters are others' too: the median."""
        return int(np.median(self.estimates(_STRANGERS)))

    def halve(self) -> None:
        """Halve every count, rounding down. O(memory)."""
        np.right_shift(self._counters, 1, out=self._counters)

    def memory_used(self) -> int:
        """Bytes of its array."""
        return self._counters.nbytes


def _block_count(keys: int) -> int:
    return -(-keys * _COUNTERS_PER_KEY // _BLOCK_COUNTERS)


@kernel_part
def _count(counters: NDArray[np.uint8], key: Any, count: Any) -> Any:
    """Raise the lowest of a key's counters by a count, and the others to no less; what it is then."""
    code = mix(key)
    block = ((code >> _HALF_BITS) * np.uint64(len(counters))) >> _HALF_BITS
    places = code
    least = np.int64(MOST_FREQUENT)
    for row in range(_ROWS):
        least = min(least, np.int64(counters[block, row * _ROW_COUNTERS + np.int64(places & _ROW_MASK)]))
        places >>= _ROW_BITS
    raised = min(MOST_FREQUENT, least + count)
    places = code
    for row in range(_ROWS):
        place = row * _ROW_COUNTERS + np.int64(places & _ROW_MASK)
        counters[block, place] = max(counters[block, place], raised)
        places >>= _ROW_BITS
    return raised


@kernel
def _add(counters: NDArray[np.uint8], keys: Int64Array, counts: Int64Array, estimates: Int64Array) -> None:
    for i in range(len(keys)):
        estimates[i] = _count(counters, keys[i], counts[i])


@kernel
def _add_each(
    counters: NDArray[np.uint8], keys: Int64Array, rows: Int64Array, limits: tuple[int, int], frequent: Int64Array
) -> int:
    least, noise = limits
    counts = np.zeros(len(keys), np.int32)
    for row in rows:
        counts[row] += 1
    found = 0
    for row in rows:
        # A row is counted where it stands first.
        count = np.int64(counts[row])
        if count:
            counts[row] = 0
            estimate = max(count, _count(counters, keys[row], count) - noise)
            if estimate >= least:
                frequent[0, found], frequent[1, found], frequent[2, found] = row, count, estimate
                found += 1
    return found
