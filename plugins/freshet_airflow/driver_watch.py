"""Decides whether a driver still drives its pipeline, and how often a dead one is started again. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from spark_jobs.control.driver_records import DriverRecord
from spark_jobs.control.drivers import Restart
from spark_jobs.launch.detached_driver import DriverLaunch

LONGEST_PAUSE_SECONDS = 60.0


class Ending(StrEnum):
    """How a watched driver ended."""

    STOPPED = "stopped"  # it was drained
    FAILED = "failed"  # it ended with an error, or its process is gone
    SILENT = "silent"  # its process may live, but it has sent no heartbeat for too long
    NOT_STARTED = "not started"  # it ended, or took too long, before it took the pipeline over


@dataclass(frozen=True)
class Sighting:
    """What one look found.

    Attributes:
        newest: the pipeline's newest driver.
        watched_state: state of the driver that is watched, which need not be the newest.
        launch_running: whether the launched process lives.
    """

    newest: DriverRecord | None
    watched_state: str | None
    launch_running: bool


class DriverWatch:
    """Watches one driver, or the one that a launch will bring.

    Args:
        epoch: the watched driver's epoch; None until the launched one has taken over.
        launch: the launch that is under way, if any.
        max_silence: a driver without a heartbeat for longer counts as hanging.
        start_timeout: a launched driver has to take over within this time.
    """

    def __init__(
        self, epoch: int | None, launch: DriverLaunch | None, max_silence: timedelta, start_timeout: timedelta
    ) -> None:
        self.epoch = epoch
        self._launch = launch
        self._max_silence = max_silence.total_seconds()
        self._start_timeout = start_timeout.total_seconds()
        self._began_at: float | None = None
        self._heartbeat: datetime | None = None
        self._heard_at = 0.0

    def look(self, sighting: Sighting, at: float) -> Ending | None:
        """Judge by a new look.

        Args:
            sighting: what was found.
            at: time of the look in seconds, on a clock that never goes back.

        Returns:
            how the driver ended; None while it drives, or starts.
        """
        newest = sighting.newest
        if self.epoch is None:
            return self._look_at_launch(sighting, at)
        if newest is None:
            return Ending.FAILED  # the table was emptied by hand
        if newest.epoch > self.epoch:
            if sighting.watched_state == "stopped":
                return Ending.STOPPED  # drained, and started again by another run, which watches the new one
            self.epoch = newest.epoch
            self._heartbeat = None
        return self._look_at_driver(newest, at)

    def forget_silence(self) -> None:
        """Count the silence anew: the warehouse was away, and no heartbeat could be written or read."""
        self._heartbeat = None

    def _look_at_launch(self, sighting: Sighting, at: float) -> Ending | None:
        after_epoch = self._launch.after_epoch if self._launch else 0
        if sighting.newest is not None and sighting.newest.epoch > after_epoch:
            self.epoch = sighting.newest.epoch
            return self._look_at_driver(sighting.newest, at)
        if self._began_at is None:
            self._began_at = at
        too_long = at - self._began_at > self._start_timeout
        return Ending.NOT_STARTED if too_long or not sighting.launch_running else None

    def _look_at_driver(self, driver: DriverRecord, at: float) -> Ending | None:
        if driver.state == "stopped":
            return Ending.STOPPED
        if not driver.is_alive(timedelta.max):
            return Ending.FAILED
        # A heartbeat's age compares two clocks and is large after an outage; that it does not change tells the truth.
        if driver.heartbeat_at != self._heartbeat:
            self._heartbeat, self._heard_at = driver.heartbeat_at, at
        return Ending.SILENT if at - self._heard_at > self._max_silence else None


@dataclass(frozen=True)
class RestartPolicy:
    """A number of restarts within a window of time; the first at once, each later one after twice the pause.

    Attributes:
        most: restarts allowed within the window.
        window_seconds: length of the window.
    """

    most: int = 5
    window_seconds: float = 600.0

    def recent(self, restarts: Sequence[float], now: float) -> list[float]:
        """Those of the restarts (in seconds, on the clock of `now`) that lie within the window."""
        return [restart for restart in restarts if restart > now - self.window_seconds]

    def allows(self, restarts: Sequence[float], now: float) -> bool:
        """Whether one more restart is allowed."""
        return len(self.recent(restarts, now)) < self.most

    def next_try(self, restarts: Sequence[float], now: float) -> Restart | None:
        """The restart that comes next; None if no more is allowed."""
        return Restart(len(self.recent(restarts, now)) + 1, self.most) if self.allows(restarts, now) else None

    def pause_seconds(self, restarts: Sequence[float], now: float) -> float:
        """How long to wait before the next restart: 0, 1, 2, 4, ... seconds."""
        count = len(self.recent(restarts, now))
        return min(2.0 ** (count - 1), LONGEST_PAUSE_SECONDS) if count else 0.0
