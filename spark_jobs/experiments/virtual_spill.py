"""Extents of tuples on a disk that exists on paper alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.experiments.virtual_relation import VirtualDisk

Int64Array = NDArray[np.int64]


class VirtualSpill:
    """A `SpillStore` whose extents lie in memory, while a disk charges its clock for each page.

    Args:
        disk: what is charged; None for a disk that costs nothing.
        page_bytes: the least that is read or written at once.
    """

    def __init__(self, disk: VirtualDisk | None = None, page_bytes: int = 4096) -> None:
        self.page_bytes = page_bytes
        self.pages_written = 0
        self.pages_read = 0
        self._disk = disk
        self._extents: dict[int, Int64Array] = {}
        self._next = 0

    @property
    def extents(self) -> frozenset[int]:
        """The numbers of those that have not been removed."""
        return frozenset(self._extents)

    def write(self, columns: Int64Array) -> int:
        """Keep a copy; charged as one write."""
        extent = self._next
        self._next += 1
        self._extents[extent] = columns.copy()
        self.pages_written += self._charged(columns.nbytes)
        return extent

    def read(self, extent: int, first: int = 0, count: int | None = None) -> Int64Array:
        """A copy of a part; charged as one read."""
        columns = self._extents[extent]
        last = columns.shape[1] if count is None else first + count
        part = columns[:, first:last].copy()
        self.pages_read += self._charged(part.nbytes)
        return part

    def remove(self, extent: int) -> None:
        """Forget an extent; costs nothing."""
        del self._extents[extent]

    def _charged(self, size: int) -> int:
        pages = -(-size // self.page_bytes)
        if self._disk is not None:
            self._disk.read(pages * self.page_bytes)
        return pages
