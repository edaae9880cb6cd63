"""Text fields into an Arrow string array."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.joins.structures.jit import kernel
from spark_jobs.relation.arrow_buffers import binary_array


def text_column(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int32], valid: NDArray[np.bool_] | None
) -> pa.Array:
    """One column of text. O(bytes).

    Args:
        data: the stream, uint8.
        starts: int64, shape (n,), where each field starts.
        lengths: int32, shape (n,), how long it is.
        valid: bool, shape (n,), False for nulls; None where there are none.
    """
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(lengths if valid is None else np.maximum(lengths, 0), out=offsets[1:])
    text = np.empty(offsets[-1], np.uint8)
    _copy_fields(data, starts, offsets, text)
    return binary_array(offsets, text, valid, pa.string())


@kernel
def _copy_fields(
    data: NDArray[np.uint8], starts: NDArray[np.int64], offsets: NDArray[np.int32], text: NDArray[np.uint8]
) -> None:
    for row in range(len(starts)):
        source, target = starts[row], np.int64(offsets[row])
        for index in range(np.int64(offsets[row + 1]) - target):
            text[target + index] = data[source + index]
