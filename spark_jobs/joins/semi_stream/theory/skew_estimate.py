"""Tells the Zipf exponent of a stream from how often its hottest keys were seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import pdtrc

from spark_jobs.joins.semi_stream.theory.popularity import ZipfStream
from spark_jobs.joins.semi_stream.theory.root import increasing_root

_STEEPEST = 3.0
# A key seen this often is hot; less often might be chance.
_HOT = 8
# More than this many counts of a single key would add nothing to what the others tell.
_ENOUGH = 64


def estimate_exponent(
    frequencies: NDArray[np.floating] | NDArray[np.integer], stream_tuples: float, row_count: int
) -> float:
    """The Zipf exponent under which hot keys get the part of the stream that they were seen to get.

    Hot is who was seen at least c times. A key of probability p is seen N times out of T with N Poisson distributed
    about pT, so the hot keys' part of the sample is sum p P(Poisson(pT) >= c - 1) on average: that counts in keys that
    are hot by chance alone, of which the sample of a uniform stream has many. It grows with the exponent; the estimate
    is where it is as observed.

    Args:
        frequencies: shape (n,), how often keys were seen: of all keys, or of the most frequent ones, as the slots of a
            front stage have them. c is so high that no key is missing that was seen as often: at least 8, and more
            than twice the lowest of these frequencies, for a front stage overrates newcomers by about as much.
        stream_tuples: T, in which they were seen; aged as the frequencies are.
        row_count: tuples of R.

    Returns:
        From 0, uniform, to 3.
    """
    seen = np.asarray(frequencies, np.float64)
    if not seen.size or stream_tuples <= 0:
        return 0.0
    missing_below = 2 * float(seen.min()) + 1 if len(seen) < row_count else 0.0
    hot_from = int(np.ceil(max(missing_below, _HOT)))
    hot_from = max(hot_from, min(_ENOUGH, int(seen.max()) // 4))
    share = float(seen[seen >= hot_from].sum()) / stream_tuples

    def surplus(exponent: float) -> float:
        keys = ZipfStream(row_count, exponent, shuffled=False).keys()
        return keys.mean(pdtrc(hot_from - 2, stream_tuples * keys.probabilities)) - share

    return increasing_root(surplus, 0.0, _STEEPEST, 1e-4)
