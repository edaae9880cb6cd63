"""Where tuples go that memory does not hold."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]


class SpillStore(Protocol):
    """Extents of tuples on a disk: written whole, never changed, read in parts, removed.

    An extent holds columns of one length, int64. What a store is asked to do, it counts in pages: each write and each
    read takes whole ones. Extents are numbered 0, 1, 2, ... as they are written.

    Attributes:
        page_bytes: the least that is read or written at once.
        pages_written: pages written so far.
        pages_read: pages read so far.
    """

    page_bytes: int
    pages_written: int
    pages_read: int

    def write(self, columns: Int64Array) -> int:
        """Write an extent: int64, shape (c, n), n > 0. Its number."""

    def read(self, extent: int, first: int = 0, count: int | None = None) -> Int64Array:
        """Read tuples first to first + count - 1 of an extent, to its end if there is no count.

        Returns:
            int64, shape (c, count), the caller's own.
        """

    def remove(self, extent: int) -> None:
        """Forget an extent."""
