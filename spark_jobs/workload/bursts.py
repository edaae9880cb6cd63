"""Arrivals of a stream, steady or bursty and self-similar as STREAMGENERATOR of the HYBRIDJOIN paper makes them."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from spark_jobs.workload.rates import RateAt, constant

STEP_SECONDS = 0.1
_OBJECTS = 8  # the slowest of them stays on or off for up to 2^8 steps: 26 s

Arrivals = Iterator[tuple[float, int]]
"""(start of a step in seconds from the stream's start, number of stream tuples that arrive in the step)."""


def bursty_arrivals(rate: float | RateAt, *, seed: int) -> Arrivals:
    """Endless bursty arrivals: the sum of on/off objects whose bandwidths and time scales are powers of two.

    Object i = 1..N sends 2^i tuples a step while it is on, and stays on or off for a random time of up to 2^i
    steps. So there are bursts on every time scale from two steps to 2^N, which makes the counts self-similar:
    averaged over longer and longer spans they stay bursty, up to the largest object's time scale. The rate
    swings between 0 and twice the mean.

    Paper's names (seeds/000, Fig. 7): `oneStep` is `STEP_SECONDS`, N is `_OBJECTS`, `timeInChosenUnit` the time at
    which an object switches next, `totalCurrentBandwidth` the bandwidth of all objects that are on.
    Departures: each object has an on/off state of its own (Fig. 7 has one for all) and begins in a random one,
    so that the mean is right from the first step; every object that is due switches, not one per step; the
    time of stay is added to the time of the switch (Fig. 7, line 19, multiplies both); the bandwidth is scaled
    to the mean rate; no clock is read.

    Args:
        rate: mean number of tuples per second, or what tells it for each step's start.
        seed: equal seeds give equal arrivals.
    """
    rate_at = rate if callable(rate) else constant(rate)
    random = np.random.default_rng(seed)
    is_on = {i: bool(random.random() < 0.5) for i in range(1, _OBJECTS + 1)}
    switches = [(float(random.random() * 2**i), i) for i in is_on]
    heapq.heapify(switches)
    current_bandwidth = sum(2**i for i, on in is_on.items() if on)
    mean_bandwidth = sum(2**i for i in is_on) / 2

    expected = 0.0
    arrived = 0
    number = 0
    while True:
        while switches[0][0] <= number:
            switch_time, i = switches[0]
            heapq.heapreplace(switches, (switch_time + float(random.random() * 2**i), i))
            is_on[i] = not is_on[i]
            current_bandwidth += 2**i if is_on[i] else -(2**i)
        expected += rate_at(number * STEP_SECONDS) * STEP_SECONDS * current_bandwidth / mean_bandwidth
        count = math.floor(expected) - arrived
        yield number * STEP_SECONDS, count
        arrived += count
        number += 1


def steady_arrivals(rate: float | RateAt) -> Arrivals:
    """Endless arrivals without bursts; `rate` as for `bursty_arrivals`."""
    rate_at = rate if callable(rate) else constant(rate)
    arrived, due = 0, 0.0  # what is due but for whole tuples that have arrived: rounding errors never add up
    number = 0
    while True:
        due += rate_at(number * STEP_SECONDS) * STEP_SECONDS
        count = math.floor(due - arrived + 1e-9)
        yield number * STEP_SECONDS, count
        arrived += count
        number += 1


class ArrivalSchedule:
    """Spreads each step's tuples evenly over the step and hands them out as time goes on.

    A late call gets everything that is due by then, each tuple with the moment it was planned for: a
    delay of the asker never adds or loses a tuple, and never moves a later one.

    Args:
        arrivals: steps in order of time.
    """

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._planned_until = 0.0
        self._planned: npt.NDArray[np.float64] = np.empty(0)

    def due(self, elapsed: float) -> npt.NDArray[np.float64]:
        """Moments (seconds from the stream's start, ascending) up to `elapsed` that were not handed out before."""
        self._plan_until(elapsed)
        border = int(np.searchsorted(self._planned, elapsed, side="right"))
        due, self._planned = self._planned[:border], self._planned[border:]
        return due

    def next_due(self, count: int = 1) -> float:
        """When `count` more, at least 1, will be due than were handed out."""
        while (missing := count - len(self._planned)) > 0:
            # In doubling spans: steps are few where many tuples arrive in each, and copies few where there are few.
            self._plan_until(self._planned_until + min(STEP_SECONDS * (missing - 1), self._planned_until))
        return float(self._planned[count - 1])

    def _plan_until(self, elapsed: float) -> None:
        steps = [self._planned]
        while self._planned_until <= elapsed:
            start, count = next(self._arrivals)
            steps.append(start + STEP_SECONDS * (np.arange(count) + 0.5) / count)
            self._planned_until = start + STEP_SECONDS
        if len(steps) > 1:
            self._planned = np.concatenate(steps)
