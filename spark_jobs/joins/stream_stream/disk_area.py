"""The part of a sweep area that memory does not hold: extents that are read one after the other for many queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.stream_stream.extent_queue import ExtentQueue
from spark_jobs.joins.stream_stream.spill import SpillStore
from spark_jobs.joins.structures.sweep_area import END, ID, MATCHED_ROW

Int64Array = NDArray[np.int64]

_ENTRY = 4  # An extent, its tuples, the largest end, and how many have not matched.
_FIRST, _LAST = -(2**63), 2**63 - 1


class DiskArea:
    """Tuples of one stream on disk, with what they know: whether they have matched.

    An extent is what memory had to give up at once. It is read when its tuples may have partners, and written anew
    when some of them matched for the first time; it leaves when the last of them ends.

    Args:
        spill: where the extents lie.
    """

    def __init__(self, spill: SpillStore) -> None:
        self._spill = spill
        self._extents = ExtentQueue(spill, _ENTRY)
        self.tuples = 0
        self.largest_end = _FIRST  # At least the largest of all, and
        self._next_end = _LAST  # at most the time at which the next extent leaves.

    @staticmethod
    def bytes_for() -> int:
        """Memory that its directory takes at most, in bytes."""
        return ExtentQueue.bytes_for(_ENTRY)

    def write(self, columns: Int64Array) -> None:
        """Write tuples, as `SweepArea.take_oldest` gives them, at least one."""
        self._push(self._spill.write(columns), columns)
        self.tuples += columns.shape[1]

    def each(self, after: int, work: Callable[[Int64Array], Int64Array | None]) -> None:
        """Read every extent that has a tuple that ends after some time.

        Args:
            after: the time.
            work: takes the tuples, shape (6, n); returns them if it has changed them, else None.
        """
        self._next_end = _LAST
        for _ in range(len(self._extents)):
            entry = self._extents.pop()
            if entry[2] <= after:
                self._put_back(entry)
                continue
            changed = work(self._spill.read(entry[0]))
            if changed is None:
                self._put_back(entry)
            else:
                self._spill.remove(entry[0])
                self._push(self._spill.write(changed), changed)

    def reorganise(self, bound: int) -> Iterator[tuple[int, Int64Array]]:
        """Remove the extents whose tuples all end at `bound` or before: how many tuples, and ids of the unmatched."""
        if self._next_end > bound:
            return
        self._next_end = _LAST
        for _ in range(len(self._extents)):
            entry = self._extents.pop()
            extent, count, largest_end, unmatched = entry
            if largest_end > bound:
                self._put_back(entry)
                continue
            columns = self._spill.read(extent) if unmatched else np.empty((MATCHED_ROW + 1, 0), np.int64)
            self._spill.remove(extent)
            self.tuples -= count
            yield count, columns[ID, columns[MATCHED_ROW] == 0]

    def memory_used(self) -> int:
        """Bytes of the directory."""
        return self._extents.memory_used()

    def _push(self, extent: int, columns: Int64Array) -> None:
        unmatched = int((columns[MATCHED_ROW] == 0).sum())
        self._put_back((extent, columns.shape[1], int(columns[END].max()), unmatched))

    def _put_back(self, entry: tuple[int, ...]) -> None:
        self._extents.push(*entry)
        self.largest_end = max(self.largest_end, entry[2])
        self._next_end = min(self._next_end, entry[2])
