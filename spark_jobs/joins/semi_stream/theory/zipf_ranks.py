"""Zipf's law over the ranks of R's tuples, as an integral: what share of the stream the most frequent tuples get."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def share_of_first(ranks: FloatArray | float, row_count: int, exponent: float) -> FloatArray:
    """Part of the stream that asks for the tuples of rank 1 to `ranks`. O(1) each.

    The density x^-exponent on 1 to row_count + 1, integrated from each rank to the next, as GETDISTRIBUTIONVALUE
    of 000 Fig. 7 draws. It is continuous in `ranks`, so that it can be told for any part of R.

    Args:
        ranks: from 0 to row_count; whole or not.
        row_count: tuples of R, R_t.
        exponent: 0 is uniform, 1 the papers'.
    """
    flatness = 1.0 - exponent
    position, end = np.log1p(np.asarray(ranks, np.float64)), np.log1p(float(row_count))
    if flatness == 0:
        return position / end
    share: FloatArray = np.expm1(flatness * position) / np.expm1(flatness * end)
    return share
