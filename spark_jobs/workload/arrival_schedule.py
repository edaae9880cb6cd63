"""The moments at which the tuples of an arrival process are due."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spark_jobs.workload.bursts import DEFAULT_STEP_SECONDS, Arrivals


class ArrivalSchedule:
    """Spreads each step's tuples evenly over the step and hands them out as time goes on.

    Whoever asks late gets everything that is due by then, each tuple with the moment it was planned for: a
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
        steps = [self._planned]
        while self._planned_until <= elapsed:
            start, count = next(self._arrivals)
            steps.append(start + self._step * (np.arange(count) + 0.5) / count)
            self._planned_until = start + self._step
        planned = np.concatenate(steps)
        border = int(np.searchsorted(planned, elapsed, side="right"))
        self._planned = planned[border:]
        return planned[:border]
