"""Looks sorted values up in sorted values: from each on to the next, in steps that double (exponential search).

Bentley and Yao: An almost optimal algorithm for unbounded searching, 1976. Where both are alike in number this is a
merge, where few are looked up it reads few lines of memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.structures.jit import kernel, read_only

Int64Array = NDArray[np.int64]


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
