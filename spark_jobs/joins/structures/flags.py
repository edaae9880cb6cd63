"""Flags that are set, and never taken back: how many of them are new."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.jit import kernel, read_only


def set_flags(flags: NDArray[np.bool_], rows: NDArray[np.int64]) -> int:
    """Set flags; how many were not set before.

    Args:
        flags: bool, shape (n,).
        rows: int64, shape (m,), each from 0 to n - 1; one may come several times. O(m).
    """
    return int(_set(flags, read_only(np.ascontiguousarray(rows))))


@kernel
def _set(flags: NDArray[np.bool_], rows: NDArray[np.int64]) -> int:
    new = 0
    for i in range(len(rows)):
        new += not flags[rows[i]]
        flags[rows[i]] = True
    return new
