"""A destination of load shedding that charges a virtual clock: a disk, or another machine."""

from __future__ import annotations

from spark_jobs.experiments.virtual_disk import DiskProfile, VirtualClock
from spark_jobs.joins.semi_stream.load_shedding import Destination
from spark_jobs.joins.structures.stream_buffer import TupleColumns

_BUFFER_BYTES = 1 << 16
# A tuple of the stream (003 Table 1).
_STREAM_TUPLE_BYTES = 20

# The hard disk of 003's machine, and a gigabit network: buffers go out one by one.
SHED_TO_DISK = DiskProfile("disk", seek_seconds=9e-3, bytes_per_second=70e6, block_bytes=_BUFFER_BYTES)
SHED_TO_NETWORK = DiskProfile("network", seek_seconds=0.2e-3, bytes_per_second=117e6, block_bytes=_BUFFER_BYTES)


class ChargedDestination:
    """Charges one transfer for each buffer that has been filled, in either direction.

    Args:
        destination: keeps the tuples.
        profile: what a transfer costs; a buffer is its block.
        clock: what is charged.
    """

    def __init__(self, destination: Destination, profile: DiskProfile, clock: VirtualClock) -> None:
        self._destination = destination
        self._profile = profile
        self._clock = clock
        self._buffered_bytes = 0

    def __len__(self) -> int:
        return len(self._destination)

    def put(self, tuples: TupleColumns) -> None:
        """Store tuples."""
        self._charge(len(tuples.ids))
        self._destination.put(tuples)

    def take(self, count: int) -> TupleColumns:
        """Take up to `count` tuples back."""
        tuples = self._destination.take(count)
        self._charge(len(tuples.ids))
        return tuples

    def _charge(self, tuples: int) -> None:
        self._buffered_bytes += tuples * _STREAM_TUPLE_BYTES
        buffers, self._buffered_bytes = divmod(self._buffered_bytes, self._profile.block_bytes)
        self._clock.advance(buffers * self._profile.seconds(self._profile.block_bytes))
