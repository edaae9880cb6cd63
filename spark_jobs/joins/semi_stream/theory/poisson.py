"""How often keys are seen in a sample of the stream: one of mean count m, a Poisson distributed number of times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spark_jobs.joins.semi_stream.theory.zipf_ranks import FloatArray

# From here on a count is as good as its mean.
_MOST_COUNTS = 1000


def more_than(mean: FloatArray) -> Iterator[FloatArray]:
    """The probability to be seen more than 0 times, more than 1 times, and so on; ends where that hardly varies.

    Args:
        mean: float64, shape (n,), mean counts.
    """
    term = np.exp(-mean)
    above = -np.expm1(-mean)
    yield above
    for count in range(1, _MOST_COUNTS):
        term = term * mean / count
        above = np.maximum(above - term, 0.0)
        yield above


def seen_at_least(mean: FloatArray, count: int) -> FloatArray:
    """The probability of each mean count, shape (n,), to be seen at least so many times."""
    if count <= 0:
        return np.ones_like(mean)
    for times, above in enumerate(more_than(mean), 1):
        if times == count:
            return above
    return np.asarray(mean >= count, np.float64)
