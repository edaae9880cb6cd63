"""Admission: how much of a backlog one micro-batch takes."""

from __future__ import annotations

from datetime import timedelta

MEBIBYTE = 1 << 20


class Admission:
    """Sizes batches so that each can be loaded within the freshness target.

    A tuple that has just missed a batch waits for that one to end and then for its own: so a batch may
    take half of the target. What a batch of that length holds is judged by the last batches' rates.
    What does not fit waits in the source.

    Args:
        target: freshness target of the pipeline.
        batch_bytes: bytes of the first batches, before any rate is known.
    """

    SMALLEST = MEBIBYTE
    LARGEST = 1024 * MEBIBYTE
    # The limit can be changed only by starting the query anew, which costs about a second: rarely.
    TOLERANCE = 1.6
    PATIENCE = 4

    def __init__(self, target: timedelta, batch_bytes: int = 24 * MEBIBYTE) -> None:
        self.batch_seconds = target.total_seconds() / 2
        self.batch_bytes = batch_bytes
        self._wanted: list[int] = []

    def observe(self, read_bytes: int, seconds: float) -> None:
        """Take the figures of a finished batch.

        Args:
            read_bytes: size of the files it read.
            seconds: time from its start to its commit.
        """
        limited = read_bytes > 0.7 * self.batch_bytes
        if not limited and seconds < self.batch_seconds:
            self._wanted.clear()  # the stream is slower than the limit: no reason to change it
            return
        fitting = int(read_bytes * self.batch_seconds / max(seconds, 1e-3))
        self._wanted.append(min(max(fitting, self.SMALLEST), self.LARGEST))

    def revise(self) -> bool:
        """Change the limit if the last batches agree that it is far off; whether it was changed."""
        if len(self._wanted) < self.PATIENCE:
            return False
        recent = sorted(self._wanted[-self.PATIENCE :])
        lowest, highest = recent[0], recent[-1]
        if lowest > self.batch_bytes * self.TOLERANCE:
            self.batch_bytes = lowest
        elif highest < self.batch_bytes / self.TOLERANCE:
            self.batch_bytes = highest
        else:
            return False
        self._wanted.clear()
        return True
