"""Mean and 95 % confidence interval of a few runs that differ by their seed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

# Student's t, two-sided 95 %, for 1, 2, ... degrees of freedom.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


class Interval(NamedTuple):
    """A mean with the ends of its 95 % confidence interval; None where one run tells nothing of it."""

    mean: float
    low: float | None
    high: float | None


def interval(values: Sequence[float]) -> Interval:
    """Mean and interval of 1 to 10 values."""
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Interval(mean, None, None)
    half = _T[len(values) - 2] * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)
