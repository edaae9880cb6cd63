"""The order of intervals that are almost in order: by start, then by end."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.jit import kernel, kernel_part, read_only

Int64Array = NDArray[np.int64]

# An interval goes back in its run by up to so many places: for so few that is faster than merging. Runs are as long.
_MOST_BACK = 16
# Where there are more runs, sorting by start before is faster than merging.
_FEW_RUNS = 8
_DIGIT_BITS, _DIGIT = np.uint64(8), np.uint64(255)
_ONE = np.uint64(1)


def interval_order(starts: Int64Array, ends: Int64Array) -> Int64Array | None:
    """The permutation that sorts intervals by (start, end), stable; None where they are in order.

    Where most are in order, a merge sort of the runs that are there, in which what stands a few places too far back is
    put in its place; elsewhere a radix sort by start before that.

    Args:
        starts: int64, shape (n,).
        ends: int64, shape (n,).

    Returns:
        int64, shape (n,). O(n), and O(n log n) where most starts are equal and their ends are in no order.
    """
    order = _order(read_only(np.ascontiguousarray(starts)), read_only(np.ascontiguousarray(ends)))
    return order if len(order) else None


@kernel_part
def _before(starts: Int64Array, ends: Int64Array, left: Any, right: Any) -> Any:
    """Free of branches, which would be mispredicted every other time."""
    return (starts[left] < starts[right]) | ((starts[left] == starts[right]) & (ends[left] < ends[right]))


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
    runs = np.empty(count // _MOST_BACK + 2, np.int64)
    found = _form_runs(starts, ends, order, runs, _FEW_RUNS)
    if found > _FEW_RUNS:
        order = _by_start(starts)
        found = _form_runs(starts, ends, order, runs, count)
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


@kernel
def _form_runs(starts: Int64Array, ends: Int64Array, order: Int64Array, runs: Int64Array, most: int) -> int:
    """Put what is nearly in its place there; where the runs begin, and how many there are: gives up beyond the most."""
    count = len(order)
    found = until = 0
    while until < count and found <= most:
        begin = until
        until += 1
        while until < count:
            moved, position = order[until], until
            if until - begin >= _MOST_BACK and _before(starts, ends, moved, order[until - _MOST_BACK]):
                break
            while position > begin and _before(starts, ends, moved, order[position - 1]):
                order[position] = order[position - 1]
                position -= 1
            order[position] = moved
            until += 1
        # Runs that follow each other are one.
        if found == 0 or _before(starts, ends, order[begin], order[begin - 1]):
            runs[found] = begin
            found += 1
    return found


@kernel
def _by_start(starts: Int64Array) -> Int64Array:
    """The permutation that sorts by start, stable: digit by digit, the lowest first."""
    order, other = np.arange(len(starts)), np.empty(len(starts), np.int64)
    least = np.uint64(starts.min())
    span = np.uint64(starts.max()) - least
    shift = np.uint64(0)
    while span:
        places = np.zeros(int(_DIGIT) + 2, np.int64)
        for start in starts:
            places[_ONE + (((np.uint64(start) - least) >> shift) & _DIGIT)] += 1
        places = np.cumsum(places)
        for row in order:
            digit = ((np.uint64(starts[row]) - least) >> shift) & _DIGIT
            other[places[digit]] = row
            places[digit] += 1
        order, other = other, order
        shift += _DIGIT_BITS
        span >>= _DIGIT_BITS
    return order


@kernel_part
def _merge(
    starts: Int64Array, ends: Int64Array, order: Int64Array, merged: Int64Array, left: Any, middle: Any, until: Any
) -> None:
    right, position = middle, left
    while (left < middle) & (right < until):
        following = _before(starts, ends, order[right], order[left])
        merged[position] = order[right] if following else order[left]
        right += following
        left += not following
        position += 1
    for rest in range(left, middle):
        merged[position + rest - left] = order[rest]
    for rest in range(right, until):
        merged[position + rest - right] = order[rest]
