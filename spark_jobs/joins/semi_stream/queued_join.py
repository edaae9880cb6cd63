"""A semi-stream join whose stream tuples wait in one structure of fixed capacity."""

from __future__ import annotations

from collections.abc import Sized
from typing import Generic, TypeVar

from spark_jobs.joins.semi_stream.base import SemiStreamJoin

Waiting = TypeVar("Waiting", bound=Sized)


class QueuedJoin(SemiStreamJoin, Generic[Waiting]):
    """What most joins have in common: a tuple waits in `_waiting` from its push until it is settled.

    Attributes:
        capacity: stream tuples that the memory budget holds (H_t of 000, h_S of 003).
    """

    capacity: int
    _waiting: Waiting

    @property
    def room(self) -> int:
        """How many stream tuples `push` takes now."""
        return self.capacity - len(self._waiting)

    @property
    def pending(self) -> int:
        """How many stream tuples wait."""
        return len(self._waiting)
