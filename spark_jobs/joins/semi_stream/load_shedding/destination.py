"""Where shed stream tuples go, and come back from when the stream is slow again."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from spark_jobs.joins.structures.stream_buffer import TupleColumns


class Destination(Protocol):
    """A place outside the join's memory: a disk, another machine. Nothing put there gets lost."""

    def __len__(self) -> int:
        """Tuples that are there now."""

    def put(self, tuples: TupleColumns) -> None:
        """Store tuples, which don't stay in the caller's arrays."""

    def take(self, count: int) -> TupleColumns:
        """Take up to `count` tuples back, those first that have been there longest."""


class MemoryDestination:
    """Keeps shed tuples in the memory of the process, outside the join's budget: for tests and simulations."""

    def __init__(self) -> None:
        self._parts: deque[TupleColumns] = deque()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def put(self, tuples: TupleColumns) -> None:
        """Store tuples. O(1)."""
        self._parts.append(tuples)
        self._length += len(tuples.ids)

    def take(self, count: int) -> TupleColumns:
        """Take up to `count` tuples back, those first that have been there longest. O(count)."""
        taken, missing = [], min(count, self._length)
        self._length -= missing
        while missing:
            part = self._parts.popleft()
            if len(part.ids) > missing:
                self._parts.appendleft(part.part(missing, len(part.ids)))
                part = part.part(0, missing)
            taken.append(part)
            missing -= len(part.ids)
        return TupleColumns.concatenate(taken)
