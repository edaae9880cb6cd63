"""The moments at which the tuples of an arrival process are due."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spark_jobs.workload.bursts import DEFAULT_STEP_SECONDS, Arrivals


class ArrivalSchedule:
    """Spreads each step's tuples evenly over the step and hands them out as time goes on.

    A late call gets everything that is due by then, each tuple with the moment it was planned for: a
    delay of the asker never adds or loses a tuple, and never moves a later one.

    Args:
        arrivals: steps in order of time.
        step: length of a step in seconds.
    """

    def __init__(self, arrivals: Arrivals, *, step: float = DEFAULT_STEP_SECONDS) -> None:
        self._arrivals = arrivals
        self._step = step
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
        while len(self._planned) < count:
            self._plan_until(self._planned_until + self._step * (count - len(self._planned) - 1))
        return float(self._planned[count - 1])

    def _plan_until(self, elapsed: float) -> None:
        steps = [self._planned]
        while self._planned_until <= elapsed:
            start, count = next(self._arrivals)
            steps.append(start + self._step * (np.arange(count) + 0.5) / count)
            self._planned_until = start + self._step
        if len(steps) > 1:
            self._planned = np.concatenate(steps)
