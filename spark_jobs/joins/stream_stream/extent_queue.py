"""A queue of extents on disk whose directory stays small however many there are: what is full goes to disk itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.stream_stream.spill import SpillStore

Int64Array = NDArray[np.int64]

_MOST_ENTRIES = 16
# Directories of directories: 16 to this power are more extents than a disk has.
_MOST_LEVELS = 8


class ExtentQueue:
    """First in, first out. An entry is the number of an extent and what its owner wants to know of it.

    Args:
        spill: where the extents lie.
        columns: numbers of an entry.
    """

    def __init__(self, spill: SpillStore, columns: int) -> None:
        self._spill = spill
        self._columns = columns
        self._oldest: list[tuple[int, ...]] = []
        self._newest: list[tuple[int, ...]] = []
        self._between: ExtentQueue | None = None  # Extents of entries, each as many as fit here.
        self._count = 0

    @staticmethod
    def bytes_for(columns: int) -> int:
        """Memory that a queue takes at most, in bytes."""
        return 2 * _MOST_ENTRIES * (columns + _MOST_LEVELS - 1) * 8

    def __len__(self) -> int:
        return self._count

    def push(self, *entry: int) -> None:
        """Add an entry."""
        if len(self._newest) == _MOST_ENTRIES:
            if not self._between and not self._oldest:
                self._oldest, self._newest = self._newest, []
            else:
                if self._between is None:
                    self._between = ExtentQueue(self._spill, 1)
                self._between.push(self._spill.write(np.array(self._newest).T))
                self._newest = []
        self._newest.append(entry)
        self._count += 1

    def pop(self) -> tuple[int, ...]:
        """Take out the oldest entry; there must be one."""
        if not self._oldest:
            if self._between:
                (extent,) = self._between.pop()
                self._oldest = [tuple(entry) for entry in self._spill.read(extent).T.tolist()]
                self._spill.remove(extent)
            else:
                self._oldest, self._newest = self._newest, []
        self._count -= 1
        return self._oldest.pop(0)

    def memory_used(self) -> int:
        """Bytes of the directories."""
        here = (len(self._oldest) + len(self._newest)) * self._columns * 8
        return here + (self._between.memory_used() if self._between is not None else 0)
