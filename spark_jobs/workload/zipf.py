"""Zipf's law by inverse integral: GETDISTRIBUTIONVALUE of the HYBRIDJOIN paper (Fig. 7), for any exponent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from spark_jobs.errors import WorkloadError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class ZipfDistribution:
    """Ranks 1..size whose probability falls as rank^-exponent.

    The density x^-exponent is integrated from rank to rank + 1, so that the integral's inverse turns a
    uniform number into a rank without any table. With exponent 1 the integral is the logarithm.

    Paper's names: `sumOfFrequency` is the integral over all ranks, `random` the uniform number,
    `distributionValue` the rank. Departures: x runs from 1 to size + 1 and is cut to its whole part (the
    paper leaves the borders open), and the exponent may be other than 1.

    Args:
        size: number of ranks, at least 1.
        exponent: skew; 0 is uniform, 1 the paper's, larger ones are steeper.

    Raises:
        WorkloadError: size or exponent out of range.
    """

    def __init__(self, size: int, exponent: float) -> None:
        if size < 1:
            raise WorkloadError(f"A Zipf distribution needs at least one rank, not {size}.")
        if not 0 <= exponent < np.inf:
            raise WorkloadError(f"Zipf exponent {exponent} is not allowed: give 0 (uniform), 1 (the paper's) or above.")
        self.size = size
        self.exponent = exponent

    def ranks(self, uniform: FloatArray) -> IntArray:
        """Turn uniform numbers in [0, 1) into ranks 1..size, in O(1) each."""
        log_end = np.log(self.size + 1.0)
        flatness = 1.0 - self.exponent
        # expm1 and log1p keep all digits where the exponent is close to 1 but not equal to it.
        log_position = (
            uniform * log_end if flatness == 0 else np.log1p(uniform * np.expm1(flatness * log_end)) / flatness
        )
        return np.clip(np.exp(log_position).astype(np.int64), 1, self.size)

    def probabilities(self) -> FloatArray:
        """Probability of each rank, most frequent first; shape (size,)."""
        borders = np.log(np.arange(1, self.size + 2, dtype=np.float64))
        flatness = 1.0 - self.exponent
        integral = borders if flatness == 0 else np.expm1(flatness * borders) / flatness
        return np.diff(integral) / integral[-1]


class ZipfKeys:
    """Keys of a relation, drawn with Zipf popularity.

    Args:
        keys: the relation's keys, shape (n,).
        exponent: see ZipfDistribution.
        shuffle_seed: ranks are dealt out to the keys in an order shuffled by this seed; None gives rank 1 to
            the first key, as in the paper, where R is sorted by popularity.
    """

    def __init__(self, keys: IntArray, exponent: float, *, shuffle_seed: Sequence[int] | None) -> None:
        self._distribution = ZipfDistribution(len(keys), exponent)
        self._by_rank = keys if shuffle_seed is None else np.random.default_rng(shuffle_seed).permutation(keys)

    def draw(self, count: int, random: np.random.Generator) -> IntArray:
        """Draw keys, shape (count,)."""
        return self._by_rank[self._distribution.ranks(random.random(count)) - 1]
