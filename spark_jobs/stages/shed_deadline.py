"""When a back stage gives up what is left: its time is spent, or would be before R may be read again."""

from __future__ import annotations

import time
from collections.abc import Callable

from spark_jobs.relation.read_limit import ReadLimit


class ShedDeadline:
    """The end of a back stage's time, asked for between its steps.

    Args:
        seconds: time of the back stage.
        limit: of reading R; None: there is none.
        clock: tells seconds.
    """

    def __init__(
        self, seconds: float, limit: ReadLimit | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._seconds = seconds
        self._limit = limit
        self._clock = clock
        self._step_began = clock()
        self._ends_at = self._step_began + seconds
        self._waited = limit.seconds_waited if limit else 0.0

    def has_come(self) -> bool:
        """Whether there is no time for another step."""
        now = self._clock()
        waited = self._limit.seconds_waited if self._limit else 0.0
        step = now - self._step_began - (waited - self._waited)
        if step > self._seconds / 2:
            self._ends_at += step  # no step is so long by itself: the warehouse was away, and that is no overload
        self._step_began, self._waited = now, waited
        ready = now + self._limit.seconds_until_ready() if self._limit else now
        return ready > self._ends_at
