"""Time that passes in sleeps only."""

from __future__ import annotations


class VirtualTime:
    """A clock that goes on in sleeps only."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.sleeps: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds
