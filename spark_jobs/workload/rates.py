"""How many orders a second: always the same, in phases, or steered while the workload runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from spark_jobs.workload.landing import land

HIGHEST_RATE = 1e6

RateAt = Callable[[float], float]
"""Mean number of tuples a second at a moment, which is given in seconds from the stream's start."""


@dataclass(frozen=True)
class Phase:
    """From `start` on, counted from the stream's start, `rate` orders a second arrive."""

    start: timedelta
    rate: float


def constant(rate: float) -> RateAt:
    """The same rate for ever."""
    return lambda _moment: rate


def phased(rate: float, phases: Sequence[Phase]) -> RateAt:
    """A rate that changes at given moments.

    Args:
        rate: until the first phase begins.
        phases: in any order.
    """
    ordered = sorted(phases, key=lambda phase: phase.start)
    starts = [phase.start.total_seconds() for phase in ordered]
    rates = [rate, *(phase.rate for phase in ordered)]
    return lambda moment: rates[bisect_right(starts, moment)]


class SteeredRate:
    """A rate that a file says, from the moment on at which it says one.

    Args:
        file: holds a number of orders a second, as text; see `steer`.
        otherwise: counts as long as there is no file, or one that holds no possible rate.
    """

    def __init__(self, file: Path, otherwise: RateAt) -> None:
        self._file = file
        self._otherwise = otherwise

    def __call__(self, moment: float) -> float:
        """The rate at a moment, seconds from the stream's start."""
        try:
            told = float(self._file.read_text())
        except (OSError, ValueError):
            return self._otherwise(moment)
        return told if 0 <= told <= HIGHEST_RATE else self._otherwise(moment)


def steer(file: Path, rate: float) -> None:
    """Have a running workload go on at this rate (orders per second; 0 pauses it). It never sees half a number."""
    land(file.parent, file.name, f"{rate:.9g}\n".encode())
