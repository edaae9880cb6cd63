"""R on a disk that exists on paper alone: it charges a virtual clock, so that a run costs the same on every machine.

Its keys count up and its tuples are made up as they are read: 100 million of them take no room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.semi_stream.base import Page

Int64Array = NDArray[np.int64]


@dataclass
class VirtualClock:
    """Time that passes when it is told to.

    Attributes:
        seconds: since the clock was made.
    """

    seconds: float = 0.0

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds

    def __call__(self) -> float:
        """The time, in seconds, for code that takes a clock."""
        return self.seconds


@dataclass(frozen=True)
class DiskProfile:
    """What reading from a disk costs.

    Attributes:
        name: for tables and the command line.
        seek_seconds: before every read; seek and half a turn of a hard disk, latency of a solid-state disk.
        bytes_per_second: transfer.
        block_bytes: the least that is read at once.
    """

    name: str
    seek_seconds: float
    bytes_per_second: float
    block_bytes: int = 4096

    def seconds(self, size: int) -> float:
        """One read of `size` bytes: c_I/O of 000 §4.4."""
        blocks = -(-size // self.block_bytes)
        return self.seek_seconds + blocks * self.block_bytes / self.bytes_per_second


# The papers' cost models charge each load of the disk buffer alike, whether or not it continues where the
# last one ended: on their machines other readers and the database's own work moved the head in between.
HARD_DISK = DiskProfile("virtual-hdd", seek_seconds=9e-3, bytes_per_second=70e6)
SOLID_STATE_DISK = DiskProfile("virtual-ssd", seek_seconds=52e-6, bytes_per_second=1.38e9)
FREE_DISK = DiskProfile("free", seek_seconds=0.0, bytes_per_second=float("inf"))


class VirtualDisk:
    """Charges a clock for reads, and counts them.

    Args:
        profile: what a read costs.
        clock: what is charged.

    Attributes:
        seeks: reads so far.
        bytes_read: bytes so far, whole blocks.
    """

    def __init__(self, profile: DiskProfile, clock: VirtualClock) -> None:
        self.profile = profile
        self.clock = clock
        self.seeks = 0
        self.bytes_read = 0

    def read(self, size: int, times: int = 1) -> None:
        """Charge reads of this size, each at a place of its own."""
        self.seeks += times
        self.bytes_read += times * -(-size // self.profile.block_bytes) * self.profile.block_bytes
        self.clock.advance(times * self.profile.seconds(size))


class VirtualRelation:
    """R with the keys 0 to row_count - 1 in key order; the rows handed out are the keys.

    Args:
        row_count: tuples of R (R_t of 000); keys, where several tuples have one key.
        disk: what is charged for reading.
        tuple_bytes: size of a tuple (v_R), or of all tuples of one key together.
        page_rows: tuples of a page, the unit of reading (v_P / v_R).
    """

    def __init__(self, row_count: int, disk: VirtualDisk, *, tuple_bytes: int = 120, page_rows: int) -> None:
        self.disk = disk
        self.page_rows = page_rows
        self._row_count = row_count
        self._tuple_bytes = tuple_bytes

    @property
    def row_count(self) -> int:
        """Tuples of R."""
        return self._row_count

    @property
    def page_count(self) -> int:
        """Pages of R."""
        return max(1, -(-self._row_count // self.page_rows))

    @property
    def page_bytes(self) -> int:
        """Memory that one page needs, in bytes."""
        return self.page_rows * self._tuple_bytes

    @property
    def tuple_bytes(self) -> int:
        """Memory that one tuple needs, in bytes."""
        return self._tuple_bytes

    @property
    def page_row_step(self) -> int:
        """Pages can be cut to any number of tuples."""
        return 1

    def with_page_rows(self, page_rows: int) -> VirtualRelation:
        """The same R, on the same disk, in pages of another size."""
        return VirtualRelation(self._row_count, self.disk, tuple_bytes=self._tuple_bytes, page_rows=page_rows)

    def sample_keys(self, count: int) -> Int64Array:
        """Keys from all over R, ascending, int64, shape (count,) at most; without reading any."""
        return np.linspace(0, self._row_count - 1, min(count, self._row_count)).round().astype(np.int64)

    def pages_of(self, keys: Int64Array) -> Int64Array:
        """The page on which each key is or would be, int64, shape (n,)."""
        return np.clip(keys // self.page_rows, 0, self.page_count - 1)

    def grow(self, row_count: int) -> None:
        """Append tuples until R has this many."""
        self._row_count = max(self._row_count, row_count)

    def read_page(self, number: int) -> Page:
        """Read one page: one seek and the transfer of its bytes."""
        first = number * self.page_rows
        return self._read(np.arange(first, min(first + self.page_rows, self._row_count)), at_once=True)

    def lookup(self, keys: Int64Array, ids: Int64Array) -> Page:
        """Read the tuples with these keys: for each a seek and a block; the index itself is in memory."""
        return self._read(keys[(keys >= 0) & (keys < self._row_count)], at_once=False)

    def gather(self, parts: Sequence[tuple[Int64Array, Int64Array]]) -> Int64Array:
        """Copy tuples out of pages."""
        return np.concatenate([rows[positions] for rows, positions in parts])

    def _read(self, keys: Int64Array, *, at_once: bool) -> Page:
        size = len(keys) * self._tuple_bytes
        if at_once:
            self.disk.read(size)
        else:
            self.disk.read(self._tuple_bytes, times=len(keys))
        return Page(keys, keys, size)
