"""Looks sorted values up in sorted values: from each on to the next, in steps that double (exponential search).

Bentley and Yao: An almost optimal algorithm for unbounded searching, 1976. Where both are alike in number this is a
merge, where few are looked up it reads few lines of memory. Intervals are looked up by their low ends.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.jit import kernel, read_only

Int64Array = NDArray[np.int64]

_LEAST = -(2**63)


def first_positions(values: Int64Array, asked: Int64Array) -> Int64Array:
    """Where each asked value stands first, or would stand; as numpy's `searchsorted`.

    Args:
        values: int64, shape (n,), ascending.
        asked: int64, shape (k,), ascending.

    Returns:
        int64, shape (k,), from 0 to n. O(k log(1 + n / k)).
    """
    return _first_positions(read_only(values), read_only(asked))


@kernel
def _first_positions(values: Int64Array, asked: Int64Array) -> Int64Array:
    positions = np.empty(len(asked), np.int64)
    low, most = 0, len(values)
    for i in range(len(asked)):
        value, high, step = asked[i], low, 1
        while high < most and values[high] < value:
            low = high + 1
            high += step
            step *= 2
        high = min(high, most)
        while low < high:
            middle = (low + high) >> 1
            if values[middle] < value:
                low = middle + 1
            else:
                high = middle
        positions[i] = low
    return positions


def overlaps(
    keys: Int64Array, ends: Int64Array, lows: Int64Array, lasts: Int64Array, longest: int
) -> tuple[Int64Array, Int64Array]:
    """Pairs of an asked interval and a given one that have a value in common; all contain their ends.

    Args:
        keys, ends: int64, shape (n,): the given ones, from key to end; the keys ascend.
        lows, lasts: int64, shape (k,): the asked ones; the lows ascend.
        longest: no given one's end exceeds its key by more.

    Returns:
        Positions of the asked and of the given one; int64, shape (m,) each, by the asked one. O(k log(1 + n / k)), and
        O(1) for each pair that would overlap if all given ones were as long as the longest.
    """
    first = first_positions(keys, np.maximum(lows, _LEAST + longest) - longest)
    given = (read_only(keys), read_only(ends), read_only(lows), read_only(lasts), first)
    pairs = np.empty((2, _overlaps(*given, np.empty((2, 0), np.int64))), np.int64)
    _overlaps(*given, pairs)
    return pairs[0], pairs[1]


@kernel
def _overlaps(
    keys: Int64Array, ends: Int64Array, lows: Int64Array, lasts: Int64Array, first: Int64Array, pairs: Int64Array
) -> int:
    """Writes the pairs as far as there is room; how many there are."""
    count = 0
    for i in range(len(lows)):
        low, last = lows[i], lasts[i]
        j = first[i]
        while j < len(keys) and keys[j] <= last:
            if ends[j] >= low:
                if count < pairs.shape[1]:
                    pairs[0, count], pairs[1, count] = i, j
                count += 1
            j += 1
    return count
