"""A disk that exists on paper alone: it charges a virtual clock, so that a run costs the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class VirtualClock:
    """Time that passes when somebody says so.

    Attributes:
        seconds: since the clock was made.
    """

    seconds: float = 0.0

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds

    def __call__(self) -> float:
        """The time, in seconds: for whoever takes a clock to ask."""
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
        """Charge reads of so many bytes at places of their own."""
        self.seeks += times
        self.bytes_read += times * -(-size // self.profile.block_bytes) * self.profile.block_bytes
        self.clock.advance(times * self.profile.seconds(size))
