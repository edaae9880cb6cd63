"""The order of intervals that are almost in order: by start, then by end."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.structures.jit import kernel, kernel_part, read_only

Int64Array = NDArray[np.int64]

# Shorter runs are made so long by insertion, which is faster than merging for so few.
_SHORTEST_RUN = 16


def interval_order(starts: Int64Array, ends: Int64Array) -> Int64Array | None:
    """The permutation that sorts intervals by (start, end), stable; None where they are in order.

    A merge sort of the ascending runs that are there.

    Args:
        starts: int64, shape (n,).
        ends: int64, shape (n,).

    Returns:
        int64, shape (n,). O(n log runs).
    """
    order = _order(read_only(np.ascontiguousarray(starts)), read_only(np.ascontiguousarray(ends)))
    return order if len(order) else None


@kernel_part
def _before(starts: Int64Array, ends: Int64Array, left: Any, right: Any) -> Any:
    return starts[left] < starts[right] or (starts[left] == starts[right] and ends[left] < ends[right])


@kernel
def _order(starts: Int64Array, ends: Int64Array) -> Int64Array:
    """Empty where nothing is to be done."""
    count = len(starts)
    first = 1
    while first < count and not _before(starts, ends, first, first - 1):
        first += 1
    if first >= count:
        return np.empty(0, np.int64)
    order = np.arange(count)
    runs = np.empty(count // _SHORTEST_RUN + 2, np.int64)
    found = 0
    until = 0
    while until < count:
        begin = until
        until += 1
        while until < count and not _before(starts, ends, order[until], order[until - 1]):
            until += 1
        while until < count and until - begin < _SHORTEST_RUN:
            moved, position = order[until], until
            while position > begin and _before(starts, ends, moved, order[position - 1]):
                order[position] = order[position - 1]
                position -= 1
            order[position] = moved
            until += 1
        # Runs that follow each other are one.
        if found == 0 or _before(starts, ends, order[begin], order[begin - 1]):
            runs[found] = begin
            found += 1
    runs[found] = count
    other = np.empty(count if found > 1 else 0, np.int64)
    while found > 1:
        merged = 0
        for run in range(0, found, 2):
            left, middle = runs[run], runs[run + 1]
            until = runs[run + 2] if run + 2 <= found else middle
            _merge(starts, ends, order, other, left, middle, until)
            runs[merged] = left
            merged += 1
        runs[merged] = count
        found = merged
        order, other = other, order
    return order


@kernel_part
def _merge(
    starts: Int64Array, ends: Int64Array, order: Int64Array, merged: Int64Array, left: Any, middle: Any, until: Any
) -> None:
    right = middle
    for position in range(left, until):
        if left < middle and (right >= until or not _before(starts, ends, order[right], order[left])):
            merged[position] = order[left]
            left += 1
        else:
            merged[position] = order[right]
            right += 1
