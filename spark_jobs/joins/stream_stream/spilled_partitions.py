"""Hash partitions of two streams, each with a part in memory and a part on disk: what XJoin and its relatives share.

                     stream 0                               stream 1
    partition 0      memory: tuples in hash chains          memory: tuples in hash chains
                     disk:   extent -> extent -> extent     disk:   extent -> extent
    partition 1      ...                                    ...

A tuple has two numbers, of its arrival and of its departure to disk; numbers count what happens here, not seconds. Two
tuples met in memory if neither departed before the other arrived. What a tuple has missed are those that departed
before it arrived, and they all lie on disk by then: so one pass over the disk part of the other stream, at any time
while it is in memory, brings it all of them at once. That is why XJoin's history of probes (UF00) comes down to the
number of the last pass over each disk part, kept with each tuple as it departs:

    a pair is new in a pass         if the one in memory arrived after the disk one departed, and after the last pass
    a pair of disk tuples is left   if one arrived after the other departed, and departed before a pass came

An extent on disk holds tuples that departed together. It begins with a header, which also says which extent was written
before it: so the directory in memory is the number of the newest one, however many there are. Extents are read whole,
one at a time, and never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.semi_stream.memory_budget import tuples_within
from spark_jobs.joins.stream_stream.base import Int64Array, Results, State
from spark_jobs.joins.stream_stream.spill import SpillStore
from spark_jobs.joins.structures.hashed_streams import ARRIVAL, COLUMNS, ID, KEY, MATCHED, HashedStreams

# Stream, and keys of some of its tuples, shape (n,): which of them are kept.
Keeps = Callable[[int, Int64Array], NDArray[np.bool_]]

STREAMS = 2
MOST_PARTITIONS = 64
# Pages that a part in memory has on average, so that what is flushed fills pages.
_PAGES_PER_PART = 2
# A read or a flush is held beside the tables; it takes this part of the budget.
_BUFFER_SHARE = 16
_MOST_BUFFERED = 1 << 16
# Two extents, one as it was taken and one with its header; and the departures of a block that is settled.
_BUFFER_BYTES = (2 * COLUMNS + 1) * 8
# No extent, no event: smaller than all numbers of those.
NONE = -1
NO_IDS: Int64Array = np.empty((STREAMS, 0), np.int64)

# Rows of an extent's header.
_BEFORE, _DEPARTURE, _PROBED = range(3)


class Extent(NamedTuple):
    """Tuples that departed together.

    Attributes:
        columns: int64, shape (4, n), rows KEY, ID, ARRIVAL, MATCHED.
        departure: when.
        probed: when the last pass over the other stream's disk part had been: tuples that arrived before have met
            all that departed before them.
    """

    columns: Int64Array
    departure: int
    probed: int


class _Kept:
    """What is written while a partition's disk parts meet.

    Args:
        departure: of all of it.

    Attributes:
        newest: for each stream the extent that was written last.
        tuples: for each stream how many were written.
    """

    def __init__(self, departure: int) -> None:
        self.departure = departure
        self.newest = [NONE] * STREAMS
        self.tuples = [0] * STREAMS


class SpilledPartitions:
    """Two streams' tuples, parted by the hash codes of their keys; it knows which pairs have met.

    Args:
        memory_bytes: the budget of all.
        spill: the disk.
        algorithm: whose they are, for the error.
        partitions: a power of two; if left out, as many as have two pages each, 64 at most.
        chains: multimaps in memory; the first two are the streams', others are the caller's.
        other_bytes: what the caller needs besides, of the budget.

    Attributes:
        memory: the parts in memory.
        on_disk: int64, shape (2, partitions), tuples on disk.
        fresh: int64, shape (2, partitions): tuples in memory of the *other* stream that may have missed tuples of this
            disk part, where there is any.
        buffered: how many tuples one extent has at most; a batch that is taken in pieces of so many needs no more
            scratch space than a flush.

    Raises:
        MemoryBudgetError: the budget does not hold the directory, a tuple and an extent of one tuple.
    """

    def __init__(
        self,
        memory_bytes: int,
        spill: SpillStore,
        *,
        algorithm: str,
        partitions: int | None = None,
        chains: int = STREAMS,
        other_bytes: int = 0,
    ) -> None:
        if partitions is None:
            fitting = memory_bytes // (STREAMS * _PAGES_PER_PART * spill.page_bytes)
            partitions = 1 << (max(1, min(fitting, MOST_PARTITIONS)).bit_length() - 1)
        self._spill = spill
        self._memory_bytes = memory_bytes
        self._other_bytes = other_bytes
        self.buffered = max(1, min(memory_bytes // (_BUFFER_SHARE * _BUFFER_BYTES), _MOST_BUFFERED))
        shape = (STREAMS, partitions)
        self.on_disk: Int64Array = np.zeros(shape, np.int64)
        self.fresh: Int64Array = np.zeros(shape, np.int64)
        self._newest: Int64Array = np.full(shape, NONE)
        # When all tuples in memory of the other stream had last met all tuples of this disk part.
        self._passed: Int64Array = np.full(shape, NONE)
        capacity = tuples_within(
            memory_bytes,
            self._fixed_bytes(),
            lambda count: HashedStreams.bytes_for(count, chains, partitions),
            algorithm=algorithm,
            fixed="a directory, what one extent takes to be read,",
        )
        self.memory = HashedStreams(capacity, chains, partitions)
        self.buffered = min(self.buffered, capacity)
        self._events = 0

    @property
    def partitions(self) -> int:
        """How many there are."""
        return self.on_disk.shape[1]

    @property
    def now(self) -> int:
        """The number of the next event: whatever arrives or departs later has no smaller one."""
        return self._events

    def tick(self) -> int:
        """The number of an event that happens now."""
        self._events += 1
        return self._events - 1

    def memory_used(self) -> int:
        """Bytes of the tables, the directory, and the scratch space of a flush or a read. O(1)."""
        return self.memory.memory_used() + self._fixed_bytes()

    def _fixed_bytes(self) -> int:
        return 4 * self.on_disk.nbytes + (self.buffered + 1) * _BUFFER_BYTES + self._other_bytes

    # What arrives, and what departs.

    def store(self, stream: int, keys: Int64Array, ids: Int64Array) -> Int64Array:
        """Put tuples into memory, where there must be room; their places, int64, shape (n,). O(n + partitions)."""
        before = self.memory.counts[stream].copy()
        arrivals = np.arange(self._events, self._events + len(keys))
        self._events += len(keys)
        places = self.memory.insert(stream, keys, ids, arrivals)
        self.fresh[1 - stream] += self.memory.counts[stream] - before
        return places

    def take_keys(self, stream: int, keys: Int64Array) -> Int64Array:
        """Take all tuples of a stream with some keys out of memory; int64, shape (4, n). O(keys + n + partitions)."""
        before = self.memory.counts[stream].copy()
        taken = self.memory.take_keys(stream, keys)
        # How many of those taken were fresh is not known: at most those that are left still are.
        left = self.memory.counts[stream]
        self.fresh[1 - stream] = np.minimum(self.fresh[1 - stream], np.where(left < before, left, before))
        return taken

    def flush(
        self,
        stream: int,
        partition: int,
        departure: int | None = None,
        leaving: Callable[[Int64Array], None] = lambda _: None,
    ) -> None:
        """Write a part in memory to disk. O(buckets of the partition + n).

        Args:
            stream: whose.
            partition: which.
            departure: from when on arriving tuples did not meet these any more; now, if left out.
            leaving: is told the keys that leave memory, int64, shape (n,), some at a time.
        """
        if departure is None:
            departure = self.tick()
        if not self.on_disk[stream, partition]:
            # All that the other stream has in memory has met these there.
            self._passed[stream, partition] = departure
            self.fresh[stream, partition] = 0
        # Where the other disk part is empty, there is nothing to be missed.
        probed = int(self._passed[1 - stream, partition]) if self.on_disk[1 - stream, partition] else departure
        while self.memory.counts[stream, partition]:
            columns = self.memory.take_partition(stream, partition, self.buffered)
            leaving(columns[KEY])
            self._newest[stream, partition] = self._write(
                Extent(columns, departure, probed), int(self._newest[stream, partition])
            )
            self.on_disk[stream, partition] += columns.shape[1]
        self.fresh[1 - stream, partition] = 0

    # Stage 2: a disk part meets memory.

    def pass_over(self, stream: int, partition: int) -> Int64Array:
        """Read a disk part, and let it meet what the other stream has in memory.

        Returns:
            int64, shape (2, m): the pairs of ids that are new by that; row s are those of stream s. O(n + m).
        """
        other = 1 - stream
        last = int(self._passed[stream, partition])
        found = [NO_IDS]
        for extent in self.disk_part(stream, partition):
            met = self.memory.probe(other, extent.columns[KEY], mark=True)
            new = self.memory.tuples["arrival"][met.places] > max(extent.departure, last)
            found.append(paired(stream, extent.columns[ID][met.rows[new]], met.ids[new]))
        self._passed[stream, partition] = self.tick()
        self.fresh[stream, partition] = 0
        return np.concatenate(found, axis=1)

    # Stage 3: disk parts meet each other, and all that is left is told.

    def settle_all(self) -> Iterator[Results]:
        """Tell what is left: the pairs that have not met, and the tuples that have no match; nothing stays.

        Where the smaller of a partition's disk parts fits into memory, each is read once; else the smaller is cut into
        blocks that do, and the other is read for each of them. O(n + m) then.
        """
        for partition in range(self.partitions):
            for stream in range(STREAMS):
                if self.on_disk[:, partition].any():
                    # Keys in memory have to be there when the disk parts of their partition have their turn.
                    self.flush(stream, partition)
                else:
                    yield from self._unmatched_in_memory(stream, partition)
        for partition in range(self.partitions):
            yield from self.settle(partition)

    def settle(self, partition: int, keeps: Keeps | None = None) -> Iterator[Results]:
        """Let the disk parts of a partition, of which nothing is in memory, meet each other; new ones take their place.

        Blocks of the smaller side stand in memory, where there must be room for an extent, while the extents of the
        other come by. O(n + m) if the smaller side is one block.

        Args:
            partition: which.
            keeps: which tuples are kept; the others leave, and those among them that have no match are told. None:
                all leave.
        """
        standing = int(np.argmin(self.on_disk[:, partition]))
        coming = 1 - standing
        former = self._newest[:, partition].copy()
        kept = _Kept(self.tick())
        once = True
        for departures, last in self._blocks(standing, partition):
            once &= last
            for extent in self.disk_part(coming, partition):
                met = self.memory.probe(standing, extent.columns[KEY], mark=True)
                left = self._left(extent, met.rows, met.places, departures)
                pairs = paired(coming, extent.columns[ID][met.rows[left]], met.ids[left])
                extent.columns[MATCHED, met.rows] = 1
                yield Results(pairs, unmatched=self._leave(coming, extent.columns, keeps, kept) if once else NO_IDS)
            yield from self._take_out(standing, partition, keeps, kept)
        if not once:
            for _ in self._blocks(coming, partition, matched_too=keeps is not None):
                for extent in self.disk_part(standing, partition):
                    self.memory.probe(coming, extent.columns[KEY], mark=True)
                yield from self._take_out(coming, partition, keeps, kept)
        self._replace(partition, former, kept)

    def _take_out(self, stream: int, partition: int, keeps: Keeps | None, kept: _Kept) -> Iterator[Results]:
        """Take a block out of memory."""
        while self.memory.counts[stream, partition]:
            columns = self.memory.take_partition(stream, partition, self.buffered)
            columns[ARRIVAL] = np.where(columns[ARRIVAL] < 0, ~columns[ARRIVAL], columns[ARRIVAL])
            unmatched = self._leave(stream, columns, keeps, kept)
            if unmatched.size:
                yield Results(NO_IDS, unmatched=unmatched)

    def _leave(self, stream: int, columns: Int64Array, keeps: Keeps | None, kept: _Kept) -> Int64Array:
        """Write the tuples that are kept; stream and id of those without a match that leave."""
        if keeps is None:
            return _unmatched(stream, columns)
        staying = keeps(stream, columns[KEY])
        if staying.any():
            extent = Extent(np.ascontiguousarray(columns[:, staying]), kept.departure, kept.departure)
            kept.newest[stream] = self._write(extent, kept.newest[stream])
            kept.tuples[stream] += extent.columns.shape[1]
        return _unmatched(stream, columns[:, ~staying])

    def _replace(self, partition: int, former: Int64Array, kept: _Kept) -> None:
        """Give up the former extents of a partition for those that were written instead; all their pairs have met."""
        for stream in range(STREAMS):
            self._remove(int(former[stream]))
        self._newest[:, partition] = kept.newest
        self.on_disk[:, partition] = kept.tuples
        self.fresh[:, partition] = 0
        self._passed[:, partition] = self.tick()

    def _blocks(self, stream: int, partition: int, *, matched_too: bool = True) -> Iterator[tuple[Int64Array, bool]]:
        """Bring a disk part into memory, which is empty each time, as much at once as fits.

        The arrival of a tuple that has met all that departed before is stored negated.

        Yields:
            At least once: when the block's tuples departed, ascending, behind a number smaller than all; whether it
            is the last block.
        """
        to_come = int(self.on_disk[stream, partition])
        departures, count = np.full(self.buffered + 1, NONE), 1
        if not to_come:
            yield departures[:1], True
        for extent in self.disk_part(stream, partition):
            to_come -= extent.columns.shape[1]
            columns = extent.columns if matched_too else extent.columns[:, extent.columns[MATCHED] == 0]
            arrivals = np.where(columns[ARRIVAL] < extent.probed, ~columns[ARRIVAL], columns[ARRIVAL])
            places = self.memory.insert(stream, columns[KEY], columns[ID], arrivals)
            self.memory.mark_matched(places[columns[MATCHED] != 0])
            if extent.departure != departures[count - 1]:
                departures[count] = extent.departure
                count += 1
            if not to_come or self.memory.room < self.buffered or count == len(departures):
                yield np.sort(departures[:count]), not to_come
                count = 1

    def _left(self, extent: Extent, rows: Int64Array, places: Int64Array, departures: Int64Array) -> NDArray[np.bool_]:
        """Which pairs of an extent's tuple and a block's tuple have not met."""
        standing = self.memory.tuples["arrival"][places]
        missed_by_standing = standing > extent.departure
        # All in memory departs at once: whatever arrived before a departure departed by then.
        arrivals = extent.columns[ARRIVAL]
        before = departures[np.searchsorted(departures, arrivals) - 1]
        missed = np.where(arrivals > extent.probed, before, NONE)
        missed_by_coming = np.where(standing < 0, ~standing, standing) < missed[rows]
        return missed_by_standing | missed_by_coming

    def _unmatched_in_memory(self, stream: int, partition: int) -> Iterator[Results]:
        """Take a part out of memory, and tell which of its tuples have no match."""
        self.fresh[1 - stream, partition] = 0
        yield from self._take_out(stream, partition, None, _Kept(self.now))

    # The disk.

    def disk_part(self, stream: int, partition: int) -> Iterator[Extent]:
        """The extents of a disk part, the newest first; each read as it is reached."""
        number = int(self._newest[stream, partition])
        while number != NONE:
            stored = self._spill.read(number)
            header = stored[:, 0]
            yield Extent(stored[:, 1:], int(header[_DEPARTURE]), int(header[_PROBED]))
            number = int(header[_BEFORE])

    def _write(self, extent: Extent, before: int) -> int:
        """Write an extent that follows another; its number."""
        header = np.zeros((COLUMNS, 1), np.int64)
        header[_BEFORE] = before
        header[_DEPARTURE] = extent.departure
        header[_PROBED] = extent.probed
        return self._spill.write(np.concatenate((header, extent.columns), axis=1))

    def _remove(self, number: int) -> None:
        """Give up an extent and all before it. O(extents), of whose headers each is read."""
        while number != NONE:
            before = int(self._spill.read(number, 0, 1)[_BEFORE, 0])
            self._spill.remove(number)
            number = before

    # Its own life.

    def state(self) -> dict[str, NDArray[Any]]:
        """Its content as arrays, for `load`. O(1) but for the views of used memory."""
        return {
            "events": np.array(self._events),
            "on_disk": self.on_disk,
            "fresh": self.fresh,
            "newest": self._newest,
            "passed": self._passed,
            **{f"memory.{name}": array for name, array in self.memory.state().items()},
        }

    def load(self, state: State) -> None:
        """Take over the content of one that was made alike, on the same disk. O(memory)."""
        self._events = int(state["events"])
        self.on_disk[:] = state["on_disk"]
        self.fresh[:] = state["fresh"]
        self._newest[:] = state["newest"]
        self._passed[:] = state["passed"]
        self.memory.load({name: state[f"memory.{name}"] for name in self.memory.state()})

    def check(self) -> None:
        """Assert that memory is sound and within the budget, and that the directory agrees with it. O(memory)."""
        assert self.memory_used() <= self._memory_bytes
        self.memory.check()
        assert ((self._newest == NONE) == (self.on_disk == 0)).all()
        assert (self.fresh >= 0).all()
        assert (self.fresh <= self.memory.counts[:STREAMS][::-1]).all()
        assert (self._passed < self._events).all()


def paired(stream: int, ids: Int64Array, others: Int64Array) -> Int64Array:
    """Pairs with row s for stream s, from the ids of one stream and those of the other."""
    return np.stack((ids, others) if stream == 0 else (others, ids))


def _unmatched(stream: int, columns: Int64Array) -> Int64Array:
    """Stream and id of the tuples without a match."""
    ids = columns[ID, columns[MATCHED] == 0]
    return np.stack((np.full(len(ids), stream), ids))
