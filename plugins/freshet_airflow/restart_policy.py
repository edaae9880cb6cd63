"""How often a driver that dies is started again, and how long to wait before that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_jobs.warehouse.drivers import Restart

LONGEST_PAUSE_SECONDS = 60.0


@dataclass(frozen=True)
class RestartPolicy:
    """At most so many restarts within a window of time; the first at once, each later one after twice the pause.

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
