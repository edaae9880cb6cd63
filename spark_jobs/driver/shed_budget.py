"""How long the back stages of a batch may take under overload, so that what is loaded stays fresh."""

from __future__ import annotations

from collections import deque
from datetime import timedelta


class ShedBudget:
    """Gives the back stages what the rest of a batch leaves of the freshness target.

    A tuple that has just missed a batch waits for that one and then for its own, so two batches have to fit into the
    target, together with what nobody here can shorten: the way into the landing folder, and the pause between two
    batches. What a batch spends outside its back stages (front stage, exchange, loading, commit) is learned from the
    last batches. The slowest of them counts: 99 of 100 tuples have to be fresh, not half of them.

    Args:
        target: freshness target of the pipeline.
        lookups: back stages of a batch, one after the other.
    """

    BATCHES_SHARE = 0.7
    FLOOR_SHARE = 0.05
    FLOOR_OF_OTHERS = 0.2
    REMEMBERED = 6

    def __init__(self, target: timedelta, lookups: int) -> None:
        self._lookups = max(lookups, 1)
        self._batch_seconds = self.BATCHES_SHARE * target.total_seconds() / 2
        self._smallest = self.FLOOR_SHARE * target.total_seconds()
        self._others: deque[float] = deque(maxlen=self.REMEMBERED)

    @property
    def back_stage_seconds(self) -> float:
        """Seconds that each back stage of the next batch may take.

        Never so few that it could read nothing. Where the rest alone takes too long, shedding would help little: the
        back stages then get a part of what the rest takes, up to half of what a batch should.
        """
        others = max(self._others, default=self._batch_seconds / 2)
        floor = min(max(self._smallest, self.FLOOR_OF_OTHERS * others), self._batch_seconds / 2)
        return max(self._batch_seconds - others, floor) / self._lookups

    def observe(self, seconds: float, back_stages: float) -> None:
        """Take the figures of a finished batch.

        Args:
            seconds: from its start to its commit.
            back_stages: of these, what its back stages took, the slowest task of each.
        """
        self._others.append(max(seconds - back_stages, 0.0))
