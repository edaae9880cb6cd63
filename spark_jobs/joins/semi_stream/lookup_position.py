"""Which waiting stream tuple decides the page of R that is read next."""

from __future__ import annotations

from typing import Protocol

from spark_jobs.joins.structures.stream_tuples import StreamTuples


class LookupPosition(Protocol):
    """A position in the queue; a join asks before every page, while there is at least one tuple."""

    def choose(self, waiting: StreamTuples) -> int:
        """The place of a waiting tuple."""


class OldestTuple:
    """The queue's end (000 §4.2): no tuple waits longer than it takes to settle those before it."""

    def choose(self, waiting: StreamTuples) -> int:
        """The place of the oldest tuple. O(1)."""
        return waiting.oldest
