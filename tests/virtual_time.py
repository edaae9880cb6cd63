"""Time that passes only in calls to sleep."""

from __future__ import annotations


class VirtualTime:
    """A clock that advances only in calls to sleep."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.sleeps: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds
