"""The mean of seconds that were measured while others use the machine, too."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

ROUNDS = 5

Clock = Callable[[], float]

real_clock: Clock = time.perf_counter


def median_of_means(seconds: Sequence[float]) -> float:
    """The median of the means of five rounds: cheap and dear reads count as they come, but one stall does not.

    Args:
        seconds: in the order of measuring, at least one; every fifth belongs to the same round.
    """
    rounds = [np.mean(seconds[start::ROUNDS]) for start in range(min(ROUNDS, len(seconds)))]
    return float(np.median(rounds))


def seconds_of(clock: Clock, action: Callable[[], Any]) -> float:
    """How long an action takes."""
    started = clock()
    action()
    return clock() - started
