"""What a bad day is to be like: its length, its phases, and how far the burst goes beyond the capacity."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from spark_jobs.errors import PlatformError

DEFAULT_DURATION = timedelta(seconds=300)
SHORTEST_DURATION = timedelta(seconds=120)
SMALLEST_FACTOR, LARGEST_FACTOR = 1.5, 10.0


@dataclass(frozen=True)
class Overload:
    """What the day is to be like.

    Attributes:
        factor: the burst's rate as a multiple of the capacity.
        duration: of the day, but for the time that the backlog may take beyond it.

    Raises:
        PlatformError: a value is out of range.
    """

    factor: float
    duration: timedelta = DEFAULT_DURATION

    def __post_init__(self) -> None:
        if not SMALLEST_FACTOR <= self.factor <= LARGEST_FACTOR:
            raise PlatformError(
                f"An overload of {self.factor:g}x makes no bad day. Give {SMALLEST_FACTOR:g}x to {LARGEST_FACTOR:g}x: "
                "the burst's rate as a multiple of what the streams can carry."
            )
        if self.duration < SHORTEST_DURATION:
            raise PlatformError(
                f"{self.duration.total_seconds():g} s are too short for a bad day: what the streams can carry has to "
                f"be found out first. Give --for {SHORTEST_DURATION.total_seconds():g}s or more."
            )

    def at(self, share: float) -> float:
        """Seconds from the day's start after this share of it."""
        return share * self.duration.total_seconds()


WARM_UP_RATE = 0.25
"""The day begins with this share of the calm rate: front stages are empty, and every tuple is read from R."""

# Shares of the day. The capacity is told by the time between late orders and burst: before, front stages fill up.
# The dimension changes in the middle of the day, which lies in the burst.
WARM_AT, LATE_ORDERS_AT, BURST_AT, CHANGE_AT, BURST_ENDS_AT = 0.1, 0.25, 0.35, 0.5, 0.55
