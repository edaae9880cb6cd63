"""Tuples of flushed hash values, of all streams: in write buffers, then in chains of extents on disk (002 §2.2).

    mix(key) -> partition: [ buffer of an extent ] -> newest extent -> older -> ... -> oldest

A key's tuples all lie in one partition. Each extent begins with the number of the one before it, so that memory knows
the newest of each chain alone: the directory does not grow with what lies on disk, and extents, all of one length, are
never small however few tuples come at a time.

A partition is read in windows: the tuples of as many keys as fit, by ascending hash code. One that fits is read once.
A key with more tuples than fit is told as such, and read block by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.hashing import hash_int64, mix
from spark_jobs.columns.jit import kernel
from spark_jobs.joins.stream_stream.spill import SpillStore
from spark_jobs.joins.structures.hashed_streams import ARRIVAL, COLUMNS, KEY, STREAM

Int64Array = NDArray[np.int64]

TUPLE_BYTES = COLUMNS * 8
# A kernel uses nothing of another file, whose change its cache would not notice.
_KEY, _ARRIVAL, _COLUMNS = 0, 2, 4
assert (_KEY, _ARRIVAL, _COLUMNS) == (KEY, ARRIVAL, COLUMNS)
WINDOW_TUPLE_BYTES = 144
"""For a tuple of a window: itself, its hash code, and what sorting them takes besides."""
READ_TUPLE_BYTES = 96
"""For a tuple of an extent that is read: itself, its hash code, and which of them a window takes."""
JOINED = -1
"""Arrival number of a tuple that has been joined with all before it: only what comes after the flush is new to it."""

_MOST_PARTITIONS = 1024
_DIRECTORY_BYTES = 5 * 8  # for a partition
_FEWEST_TUPLES = 4  # of an extent, its first place not counted
# High bits of the hash code: the low ones choose the bucket.
_SHIFT = 40
_NO_EXTENT = -1
_FIRST_CODE, _LAST_CODE = -(2**63), 2**63 - 1


class Window(NamedTuple):
    """The tuples of some keys.

    Attributes:
        columns: int64, shape (4, n): key, id, arrival, stream; sorted by key (in order of hash codes), stream, arrival.
        key: set if it is a single one with more tuples than fit: then there are no columns.
    """

    columns: Int64Array
    key: int | None = None


class SpilledValues:
    """Tuples that memory does not hold.

    Args:
        spill: the disk.
        buffer_bytes: for the write buffers.

    Attributes:
        fresh: int64, shape (partitions,), tuples of each that came after the flush and have not been joined there yet.
        since: int64, shape (partitions,): those that arrived before have been joined with each other.
        buffered: tuples in the buffers.
        on_disk: tuples on disk.
    """

    def __init__(self, spill: SpillStore, buffer_bytes: int) -> None:
        partitions, self.extent_tuples = _buffers(buffer_bytes, spill.page_bytes)
        self._spill = spill
        # Place 0 of a buffer is for the number of the extent before.
        self._buffers: Int64Array = np.zeros((partitions, COLUMNS, self.extent_tuples + 1), np.int64)
        self._fills: Int64Array = np.ones(partitions, np.int64)
        self._newest: Int64Array = np.full(partitions, _NO_EXTENT, np.int64)
        self._extents: Int64Array = np.zeros(partitions, np.int64)
        self.fresh: Int64Array = np.zeros(partitions, np.int64)
        self.since: Int64Array = np.zeros(partitions, np.int64)
        self.buffered = 0
        self.on_disk = 0

    @property
    def partitions(self) -> int:
        """How many there are."""
        return len(self._fills)

    def size(self, partition: int) -> int:
        """Tuples of a partition, in its buffer and on disk."""
        return int(self._fills[partition] - 1 + self._extents[partition] * self.extent_tuples)

    def add(self, columns: Int64Array) -> int:
        """Take tuples, int64, shape (4, n): key, id, arrival, stream. How many were written. O(n)."""
        at = written = 0
        tuples = np.ascontiguousarray(columns)
        while True:
            at, full = _scatter((self._buffers, self._fills, self.fresh), tuples, at)
            if full < 0:
                break
            self._buffers[full, KEY, 0] = self._newest[full]
            self._newest[full] = self._spill.write(self._buffers[full])
            self._extents[full] += 1
            self._fills[full] = 1
            written += self.extent_tuples
        self.buffered += columns.shape[1] - written
        self.on_disk += written
        return written

    def windows(self, partition: int, most: int, *, last_time: bool = False) -> Iterator[Window]:
        """The tuples of a partition, all of a key together, at most so many at a time.

        Pages: those of the partition, once for each window.

        Args:
            partition: which.
            most: tuples of a window.
            last_time: whether the partition is forgotten then, and its extents.
        """
        low, fits = _FIRST_CODE, self.size(partition) <= most
        if last_time:
            self.fresh[partition] = 0
        while True:
            columns, codes, last = self._window(partition, most, low, drop=last_time and fits)
            if last < low:
                yield Window(columns[:, :0], _key_with(self._pieces(partition), low))
                last = low
            elif len(codes):
                yield Window(columns[:, np.lexsort((columns[ARRIVAL], columns[STREAM], codes))])
            if last == _LAST_CODE:
                break
            low = last + 1
        if last_time:
            self._drop(partition)

    def _window(self, partition: int, most: int, low: int, *, drop: bool) -> tuple[Int64Array, Int64Array, int]:
        """Tuples with hash codes from `low` on, their codes, and the last code; below `low` if that has too many."""
        columns, codes = np.empty((COLUMNS, most), np.int64), np.empty(most, np.int64)
        count, last = 0, _LAST_CODE
        for piece in self._pieces(partition, drop=drop):
            # In parts: a piece may be larger than the window.
            for first in range(0, piece.shape[1], most):
                part = piece[:, first : first + most]
                arriving = hash_int64(part[KEY])
                while True:
                    taken = (arriving >= low) & (arriving <= last)
                    if count + int(taken.sum()) <= most:
                        break
                    last = _narrower(np.concatenate((codes[:count], arriving[taken])), low)
                    if last < low:
                        return columns, codes[:0], last
                    stays = codes[:count] <= last
                    kept = int(stays.sum())
                    columns[:, :kept], codes[:kept] = columns[:, :count][:, stays], codes[:count][stays]
                    count = kept
                until = count + int(taken.sum())
                columns[:, count:until], codes[count:until] = part[:, taken], arriving[taken]
                count = until
        return columns[:, :count], codes[:count], last

    def blocks(self, partition: int, key: int, stream: int, most: int) -> Iterator[Int64Array]:
        """The tuples of one key and stream, int64, shape (4, n), n <= most, ascending by arrival within each block."""
        block, count = np.empty((COLUMNS, most), np.int64), 0
        for piece in self._pieces(partition):
            rows = np.flatnonzero((piece[KEY] == key) & (piece[STREAM] == stream))
            while len(rows):
                taken = rows[: most - count]
                block[:, count : count + len(taken)] = piece[:, taken]
                count += len(taken)
                rows = rows[len(taken) :]
                if count == most:
                    yield block[:, np.argsort(block[ARRIVAL], kind="stable")]
                    count = 0
        if count:
            yield block[:, np.argsort(block[ARRIVAL, :count], kind="stable")]

    def _pieces(self, partition: int, *, drop: bool = False) -> Iterator[Int64Array]:
        """All tuples of a partition, int64, shape (4, n) each, n <= extent_tuples; the newest piece first."""
        yield self._buffers[partition, :, 1 : self._fills[partition]]
        extent = int(self._newest[partition])
        while extent != _NO_EXTENT:
            columns = self._spill.read(extent)
            before = int(columns[KEY, 0])
            if drop:
                self._forget(partition, extent, before)
            yield columns[:, 1:]
            extent = before

    def _forget(self, partition: int, extent: int, before: int) -> None:
        self._spill.remove(extent)
        self._newest[partition] = before
        self._extents[partition] -= 1
        self.on_disk -= self.extent_tuples

    def _drop(self, partition: int) -> None:
        """Forget a partition, and the extents that it still has: a page read for each."""
        self.buffered -= int(self._fills[partition]) - 1
        self._fills[partition] = 1
        while self._extents[partition]:
            extent = int(self._newest[partition])
            self._forget(partition, extent, int(self._spill.read(extent, 0, 1)[KEY, 0]))

    def settled(self, partition: int, arrivals: int) -> None:
        """Note that all tuples of a partition that arrived before have been joined with each other."""
        self.fresh[partition] = 0
        self.since[partition] = arrivals

    def memory_used(self) -> int:
        """Bytes of buffers and directory."""
        arrays = (self._buffers, self._fills, self._newest, self._extents, self.fresh, self.since)
        return sum(array.nbytes for array in arrays)

    def check(self) -> None:
        """Assert that the counts are right, and each buffered tuple stands where its key belongs. O(buffers)."""
        assert self.buffered == (self._fills - 1).sum()
        assert self.on_disk == self._extents.sum() * self.extent_tuples
        assert ((self._newest == _NO_EXTENT) == (self._extents == 0)).all()
        sizes = self._fills - 1 + self._extents * self.extent_tuples
        assert ((self.fresh >= 0) & (self.fresh <= sizes)).all()
        assert (self._fills <= self.extent_tuples).all()
        for partition in np.flatnonzero(self._fills > 1):
            fill = self._fills[partition]
            codes = hash_int64(self._buffers[partition, KEY, 1:fill])
            assert ((codes >> _SHIFT) & (self.partitions - 1) == partition).all()


def _buffers(buffer_bytes: int, page_bytes: int) -> tuple[int, int]:
    """How many partitions, a power of two, and tuples of an extent: whole pages if the buffers are large enough."""
    # A store may need some of a page for itself: a checksum.
    page_tuples = max(1, page_bytes // TUPLE_BYTES - 1)
    places = buffer_bytes // TUPLE_BYTES
    partitions = 1 << max(0, min(places // page_tuples, _MOST_PARTITIONS).bit_length() - 1)
    length = places // partitions
    if length > page_tuples:
        length -= length % page_tuples
    return partitions, max(_FEWEST_TUPLES, length - 1)


def _narrower(codes: Int64Array, low: int) -> int:
    """The last code of a window that is to hold fewer of these: about half; one below `low` if all have that code."""
    middle, smallest = int(np.partition(codes, len(codes) // 2)[len(codes) // 2]), int(codes.min())
    if middle > smallest:
        return middle - 1
    if int(codes.max()) > smallest:
        # Half of them and more have the smallest code: it alone may fit.
        return smallest
    return smallest - 1


def _key_with(pieces: Iterator[Int64Array], code: int) -> int:
    """The key with a hash code: there is one, for the code tells keys apart."""
    for piece in pieces:
        rows = np.flatnonzero(hash_int64(piece[KEY]) == code)
        if len(rows):
            return int(piece[KEY, rows[0]])
    raise AssertionError("a key was found in a partition and then was not")


@kernel
def _scatter(room: Any, columns: Int64Array, first: int) -> Any:
    """Put tuples into their partitions' buffers until one is full: the position reached, and which is; -1 for none."""
    buffers, fills, fresh = room
    mask = np.uint64(len(fills) - 1)
    for i in range(first, columns.shape[1]):
        partition = np.int64((mix(columns[_KEY, i]) >> np.uint64(_SHIFT)) & mask)
        place = fills[partition]
        for row in range(_COLUMNS):
            buffers[partition, row, place] = columns[row, i]
        fills[partition] = place + 1
        if columns[_ARRIVAL, i] != JOINED:
            fresh[partition] += 1
        if place + 1 == buffers.shape[2]:
            return i + 1, partition
    return columns.shape[1], -1
