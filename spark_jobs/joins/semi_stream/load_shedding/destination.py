"""Where shed stream tuples go, and come back from when the stream is slow again."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

import numpy as np

from spark_jobs.joins.semi_stream.base import NO_TUPLES, Int64Array


class ShedTuples(NamedTuple):
    """Stream tuples outside the join; int64, shape (n,) each.

    Attributes:
        keys: their join keys.
        pages: the page of R on which each key would be.
        ids: what their caller calls them.
    """

    keys: Int64Array
    pages: Int64Array
    ids: Int64Array

    def part(self, start: int, stop: int) -> ShedTuples:
        """Those from `start` to before `stop`. O(1): views."""
        return ShedTuples(self.keys[start:stop], self.pages[start:stop], self.ids[start:stop])

    @staticmethod
    def concatenate(parts: list[ShedTuples]) -> ShedTuples:
        """All tuples of some parts, in order."""
        if not parts:
            return ShedTuples(NO_TUPLES, NO_TUPLES, NO_TUPLES)
        return ShedTuples(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class Destination(Protocol):
    """A place outside the join's memory: a disk, another machine. Nothing put there gets lost."""

    def __len__(self) -> int:
        """Tuples that are there now."""

    def put(self, tuples: ShedTuples) -> None:
        """Store tuples, which don't stay in the caller's arrays."""

    def take(self, count: int) -> ShedTuples:
        """Take up to `count` tuples back, those first that have been there longest."""


class MemoryDestination:
    """Keeps shed tuples in the memory of the process, outside the join's budget: for tests and simulations."""

    def __init__(self) -> None:
        self._parts: deque[ShedTuples] = deque()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def put(self, tuples: ShedTuples) -> None:
        """Store tuples. O(1)."""
        self._parts.append(tuples)
        self._length += len(tuples.ids)

    def take(self, count: int) -> ShedTuples:
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
        return ShedTuples.concatenate(taken)
