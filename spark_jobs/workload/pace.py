"""When a workload's events happen and land: tick by tick as time goes by, or all at once with times in the past."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from spark_jobs.errors import WorkloadError
from spark_jobs.workload.bursts import ArrivalSchedule, bursty_arrivals, steady_arrivals
from spark_jobs.workload.rates import HIGHEST_RATE, Phase, SteeredRate, phased

CLOCK_JUMP_SECONDS = 1.0  # between the wall clock and the running time: the machine slept, or its clock was set

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pace:
    """How many events there are, and when.

    Attributes:
        rate: mean number of orders (or events) per second.
        phases: from when on it is another.
        bursty: arrivals in self-similar bursts; otherwise steady.
        seed: equal seeds give equal events (but for their times).
        duration: end after this time; None: go on until stopped.
        tick: time from one file of a stream to the next.
        past: don't wait for time to go by. The events' times are those of a run that would end now, so the number of
            events, or the duration, has to be given.

    Raises:
        WorkloadError: a value is out of range.
    """

    rate: float = 200.0
    phases: Sequence[Phase] = ()
    bursty: bool = True
    seed: int = 1
    duration: timedelta | None = None
    tick: timedelta = timedelta(seconds=0.5)
    past: bool = False

    def __post_init__(self) -> None:
        wrong = [text for is_fine, text in self._conditions() if not is_fine]
        if wrong:
            raise WorkloadError(f"The workload can't be made like this. {'; '.join(wrong)}.")

    @property
    def limit(self) -> int | None:
        """Number of orders (or events) after which it ends; None: no limit."""
        return None

    def _conditions(self) -> Iterator[tuple[bool, str]]:
        """What has to hold, and what is said where it does not."""
        allowed = f"give more than 0 and at most {HIGHEST_RATE:,.0f} per second"
        yield 0 < self.rate <= HIGHEST_RATE, f"rate {self.rate:g}: {allowed}"
        for phase in self.phases:
            allowed = f"give at most {HIGHEST_RATE:,.0f} per second, or 0 for a pause"
            yield 0 <= phase.rate <= HIGHEST_RATE, f"phase {phase.rate:g}: {allowed}"
        yield self.seed >= 0, f"seed {self.seed}: give 0 or above"
        yield self.duration is None or self.duration > timedelta(), "duration: give more than nothing"
        yield self.tick >= timedelta(milliseconds=10), f"tick {self.tick}: give 10ms or above"
        is_bounded = self.duration is not None or self.limit is not None
        yield not self.past or is_bounded, "past: give the number of events, or a duration, at whose end it is now"


class Stop(Protocol):
    """Something that tells when to end: a StopSignal, or a threading.Event."""

    def wait(self, seconds: float, /) -> bool:
        """Wait no longer than this; return whether the end has come."""


class Tick(Protocol):
    """Writes what is due."""

    def __call__(self, moments: FloatArray, now: float, *, last: bool) -> None:
        """Write the events that happen at `moments` (seconds since 1970 UTC), which are past by `now`."""


class PacedRun:
    """One run of a workload.

    Args:
        pace: how many events, and when.
        steered_by: file that changes the rate, see rates.steer; None: nothing does.
        most_per_tick: bounds memory when the rate asked for is more than this machine can write.
        settles_in: seconds from an event until all that follows from it has happened.
    """

    def __init__(self, pace: Pace, *, steered_by: Path | None, most_per_tick: int, settles_in: float = 0.0) -> None:
        self._pace = pace
        rate = phased(pace.rate, pace.phases)
        if steered_by is not None:
            rate = SteeredRate(steered_by, rate)
        self._schedule = ArrivalSchedule(
            bursty_arrivals(rate, seed=pace.seed) if pace.bursty else steady_arrivals(rate)
        )
        self._most = most_per_tick
        self._settles_in = settles_in
        self._end = pace.duration.total_seconds() if pace.duration else math.inf

    def run(self, write: Tick, stop: Stop, on_tick: Callable[[], None]) -> None:
        """Write until time, count or `stop` ends it."""
        tick = self._pace.tick.total_seconds()
        left = self._pace.limit or math.inf
        clock: _Clock = _PastClock(time.time() - self._span()) if self._pace.past else _WallClock()
        backlog: FloatArray = np.empty(0)
        is_last = False
        while not is_last:
            # Ticks that were missed are not made up for: all that is due by now goes out with this one.
            # Rounding must not make a tick the next one of itself.
            next_tick = 0.0 if len(backlog) else (math.floor(clock.elapsed / tick + 1e-9) + 1) * tick
            is_stopped = clock.wait(min(next_tick, self._end), stop)
            due = np.concatenate([backlog, self._schedule.due(min(clock.elapsed, self._end))])
            moments, backlog = np.split(due, [int(min(self._most, left))])
            left -= len(moments)
            is_over = clock.elapsed >= self._end and not (self._pace.past and len(backlog))
            is_last = is_stopped or is_over or left == 0
            write(clock.started_at + moments, clock.started_at + clock.elapsed, last=is_last)
            on_tick()

    def _span(self) -> float:
        """Seconds from the first event until now, of a run in the past."""
        limit = self._pace.limit
        span = self._end if limit is None else min(self._end, self._schedule.next_due(limit))
        return span + self._settles_in


class _Clock(Protocol):
    started_at: float
    elapsed: float

    def wait(self, until: float, stop: Stop) -> bool:
        """Let time go by until so many seconds from the start; return whether the end has come."""


class _WallClock:
    """Time as it is."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self.started_at = time.time()
        self.elapsed = 0.0

    def wait(self, until: float, stop: Stop) -> bool:
        is_stopped = stop.wait(self._started + until - time.monotonic())
        self.elapsed = time.monotonic() - self._started
        if abs(time.time() - self.elapsed - self.started_at) > CLOCK_JUMP_SECONDS:
            self.started_at = time.time() - self.elapsed
        return is_stopped


class _PastClock:
    """Time that goes by as fast as one can write."""

    def __init__(self, started_at: float) -> None:
        self.started_at = started_at
        self.elapsed = 0.0

    def wait(self, until: float, stop: Stop) -> bool:
        self.elapsed = max(self.elapsed, until)
        return stop.wait(0.0)
