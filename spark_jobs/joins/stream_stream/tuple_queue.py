"""Tuples of one stream that wait for the other streams: the newest in memory, older ones on disk if there are many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.stream_stream.extent_queue import ExtentQueue
from spark_jobs.joins.stream_stream.spill import SpillStore

Int64Array = NDArray[np.int64]

_ENTRY = 2  # An extent, and its tuples.


class TupleQueue:
    """First in, first out, in chunks.

    Args:
        spill: where the oldest go.
        columns: numbers of a tuple.
        chunk: tuples that are read and written at once.
    """

    def __init__(self, spill: SpillStore, columns: int, chunk: int) -> None:
        self._spill = spill
        self._shape = (columns, chunk)
        self._on_disk = ExtentQueue(spill, _ENTRY)
        self.tuples_on_disk = 0
        self._front: Int64Array | None = None  # What is being taken, and how much of it has been.
        self._taken = 0
        self._chunks: list[Int64Array] = []
        self._last = chunk  # Tuples of the last chunk.

    @staticmethod
    def bytes_for(columns: int, chunk: int) -> int:
        """The least memory that it works in: a chunk to write to, another to read from, and the directory."""
        return 2 * columns * chunk * 8 + ExtentQueue.bytes_for(_ENTRY)

    def __len__(self) -> int:
        return self.tuples_in_memory + self.tuples_on_disk

    @property
    def tuples_in_memory(self) -> int:
        """Those that are not on disk. O(1)."""
        front = 0 if self._front is None else self._front.shape[1] - self._taken
        return front + max(0, len(self._chunks) - 1) * self._shape[1] + (self._last if self._chunks else 0)

    @property
    def chunks(self) -> int:
        """How many chunks `spill` could write."""
        return len(self._chunks)

    def push(self, columns: Int64Array) -> None:
        """Add tuples, at most a chunk; int64, shape (columns, n). O(n)."""
        here = min(self._shape[1] - self._last, columns.shape[1]) if self._chunks else 0
        if here:
            self._chunks[-1][:, self._last : self._last + here] = columns[:, :here]
            self._last += here
        if here < columns.shape[1]:
            self._chunks.append(np.empty(self._shape, np.int64))
            self._last = columns.shape[1] - here
            self._chunks[-1][:, : self._last] = columns[:, here:]

    def front(self) -> Int64Array:
        """The oldest tuples, at least one if any; int64, shape (columns, n), a view. O(1) unless on disk."""
        if self._front is None:
            if self.tuples_on_disk:
                extent, count = self._on_disk.pop()
                self._front = self._spill.read(extent)
                self._spill.remove(extent)
                self.tuples_on_disk -= count
            else:
                used = self._last if len(self._chunks) == 1 else self._shape[1]
                self._front = self._chunks.pop(0)[:, :used]
        return self._front[:, self._taken :]

    def take(self, count: int) -> None:
        """Forget some of those that `front` has given."""
        assert self._front is not None
        self._taken += count
        if self._taken == self._front.shape[1]:
            self._front, self._taken = None, 0

    def spill(self) -> int:
        """Write the oldest chunk of those that can go to disk; how many tuples it has."""
        columns = self._chunks.pop(0)
        if not self._chunks:
            columns = columns[:, : self._last]
        count = columns.shape[1]
        self._on_disk.push(self._spill.write(columns), count)
        self.tuples_on_disk += count
        return count

    def memory_used(self) -> int:
        """Bytes of chunks and directory; a chunk that is half empty counts whole. O(1)."""
        chunks = len(self._chunks) + (self._front is not None)
        return chunks * self._shape[0] * self._shape[1] * 8 + self._on_disk.memory_used()
