"""Join sizes from the rows of two sketches: the median over rows, and how far off it may be."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from spark_jobs.sketches.linear_sketch import LinearSketch

FloatArray = NDArray[np.float64]

CONFIDENCE = 0.95
_BISECTIONS = 50


@dataclass(frozen=True)
class Estimate:
    """An estimated join size.

    Attributes:
        value: the estimate.
        error: the join size lies within this of it; infinite where the sketch is too small to tell.
        confidence: with at least this probability.
    """

    value: float
    error: float
    confidence: float


class JoinSizeSketch(LinearSketch):
    """A sketch whose rows each estimate join sizes without bias.

    A row of s counters has a variance of at most 2 F2 G2 / s (AGMS99 for s averaged atomic sketches; 001 §4, after
    CCF02, for a table of s buckets), so that by Chebyshev's inequality it is off by more than
    sqrt(2 F2 G2 / (s p)) with probability p at most. The median is off by more only if half of the rows are, whose
    probability is the binomial distribution's tail: p is chosen so that the tail is the risk that is allowed. F2 and G2
    are bounded from above by the sketches' own estimates of them, which may err too: the risk is shared out.
    """

    @abstractmethod
    def row_joins(self, other: Self) -> FloatArray:
        """Each row's estimate of the join size, float64, shape (rows,)."""

    @property
    def row_counters(self) -> int:
        """Counters of a row, s."""
        return self.counters.shape[-1]

    def join_size(self, other: Self, confidence: float = CONFIDENCE) -> Estimate:
        """The size of the join of two streams: the sum, over all values, of the product of their frequencies.

        Args:
            other: a sketch of the other stream, of the same seed and shape.
            confidence: of the error that is told.

        Raises:
            SketchMismatchError: the sketches don't belong together.
        """
        self.check_fits(other)
        risk = (1 - confidence) / 3
        f2, g2 = self.largest_self_join(risk), other.largest_self_join(risk)
        error = median_error(2 * f2 * g2 / self.row_counters, len(self.counters), risk)
        return Estimate(float(np.median(self.row_joins(other))), error, confidence)

    def self_join_size(self, confidence: float = CONFIDENCE) -> Estimate:
        """The size of the stream's join with itself, F2: the sum of its squared frequencies.

        Args:
            confidence: of the error that is told.
        """
        value = float(np.median(self.row_joins(self)))
        return Estimate(value, self.largest_self_join(1 - confidence) - value, confidence)

    def largest_self_join(self, risk: float) -> float:
        """What the stream's self-join size exceeds with at most this probability; infinite if the sketch can't tell."""
        relative_error = median_error(2 / self.row_counters, len(self.counters), risk)
        value = float(np.median(self.row_joins(self)))
        return value / (1 - relative_error) if relative_error < 1 else math.inf


def median_error(variance: float, rows: int, risk: float) -> float:
    """What the median of independent estimates is off by at most, except with a small probability.

    Args:
        variance: of each estimate.
        rows: estimates.
        risk: the probability that is allowed.

    Raises:
        ValueError: the risk is none, or certainty.
    """
    if not 0 < risk < 1:
        raise ValueError(f"the confidence of an estimate lies between 0 and 1, both excluded, not at {1 - risk}")
    return math.sqrt(variance / _row_risk(rows, risk)) if variance else 0.0


def _row_risk(rows: int, risk: float) -> float:
    """How probable it may be that a row is off, so that half of them are with this probability at most."""
    wrong = (rows + 1) // 2
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        tail = sum(
            math.comb(rows, count) * middle**count * (1 - middle) ** (rows - count) for count in range(wrong, rows + 1)
        )
        low, high = (middle, high) if tail <= risk else (low, middle)
    return low
