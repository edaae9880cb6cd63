"""Binary search among sorted byte strings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.joins.structures.jit import kernel
from spark_jobs.relation.arrow_buffers import binary_parts


def count_not_above(ordered: pa.BinaryArray, values: pa.BinaryArray) -> NDArray[np.int64]:
    """How many of the ordered strings are at most each value; what np.searchsorted finds on the right side.

    Args:
        ordered: shape (m,), ascending by bytes.
        values: shape (n,).

    Returns:
        int64, shape (n,). O(n log m) comparisons.
    """
    counts = np.empty(len(values), np.int64)
    _search(*binary_parts(ordered), *binary_parts(values), counts)
    return counts


@kernel
def _search(
    ordered_offsets: NDArray[np.int32],
    ordered: NDArray[np.uint8],
    offsets: NDArray[np.int32],
    values: NDArray[np.uint8],
    counts: NDArray[np.int64],
) -> None:
    for row in range(len(counts)):
        start = offsets[row]
        length = offsets[row + 1] - start
        low, high = 0, len(ordered_offsets) - 1
        # What a value has in common with both bounds it has in common with all strings between them.
        common_with_low, common_with_high = 0, 0
        while low < high:
            middle = (low + high) // 2
            other_start = ordered_offsets[middle]
            other_length = ordered_offsets[middle + 1] - other_start
            shorter = min(length, other_length)
            common = min(common_with_low, common_with_high)
            while common < shorter and values[start + common] == ordered[other_start + common]:
                common += 1
            if common < shorter:
                is_below = values[start + common] < ordered[other_start + common]
            else:
                is_below = length < other_length
            if is_below:
                high, common_with_high = middle, common
            else:
                low, common_with_low = middle + 1, common
        counts[row] = low
