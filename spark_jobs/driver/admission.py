"""Admission: how much of a backlog one batch takes."""

from __future__ import annotations

from collections import deque
from datetime import timedelta

MEBIBYTE = 1 << 20


class Admission:
    """Sizes batches so that each can be loaded within the freshness target.

    A tuple that has just missed a batch waits for that one to end and then for its own: so a batch may
    take half of the target. What a batch of that length holds is judged by the rates of the last batches, one that was
    slower than all others left out; it is at most twice what the last limit was. What does not fit waits in the source.

    Args:
        target: freshness target of the pipeline.
        batch_bytes: bytes of the first batch, before any rate is known. None of its tuples may be hot: it takes several
            times as long as later ones, and is small, so that what it finds is of use to them soon.
    """

    SMALLEST = MEBIBYTE
    LARGEST = 1024 * MEBIBYTE
    REMEMBERED = 4

    def __init__(self, target: timedelta, batch_bytes: int = 6 * MEBIBYTE) -> None:
        self.batch_seconds = target.total_seconds() / 2
        self.batch_bytes = batch_bytes
        self._fitting: deque[int] = deque(maxlen=self.REMEMBERED)

    def observe(self, read_bytes: int, seconds: float) -> None:
        """Take the figures of a finished batch.

        Args:
            read_bytes: what it read.
            seconds: time from its start to its commit.
        """
        # Files are taken whole: of two batches in a row that had no room for the next one, one took more than half.
        limited = 2 * read_bytes > self.batch_bytes
        if not limited and seconds < self.batch_seconds:
            return  # the stream is slower than the limit: it says nothing about what would fit
        self._fitting.append(int(read_bytes * self.batch_seconds / max(seconds, 1e-3)))
        usual = sorted(self._fitting)[(len(self._fitting) - 1) // 2]
        fitting = min(usual, 2 * self.batch_bytes)
        self.batch_bytes = min(max(fitting, self.SMALLEST), self.LARGEST)
