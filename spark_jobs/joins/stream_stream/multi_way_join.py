"""The frame of MJoin and AMJoin: all streams joined at once, in memory, on disk, and between the two (002 §2).

    tuple of a stream --- its hash value is flushed? --- no ---> looked up among the others, then kept
                                                    `-- yes --> write buffer -> disk -> joined when the inputs pause

When memory is full, a hash value goes: all tuples with it, of all streams. They have all met; so for each hash value
there is one moment up to which everything has been joined, and a result is new if one of its tuples came later. While
it is in memory that moment is now; then it is the flush; then the last time that its partition was read from disk.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.memory_budget import tuples_within
from spark_jobs.joins.stream_stream.base import Int64Array, Results, StreamStreamJoin, Tuples
from spark_jobs.joins.stream_stream.predicates import Predicate, expect_equality
from spark_jobs.joins.stream_stream.spill import SpillStore
from spark_jobs.joins.stream_stream.spilled_values import (
    JOINED,
    READ_TUPLE_BYTES,
    WINDOW_TUPLE_BYTES,
    SpilledValues,
    Window,
)
from spark_jobs.joins.stream_stream.value_flushing import ValueFlushing
from spark_jobs.joins.structures.bit_vector_table import BitVectorTable
from spark_jobs.joins.structures.hashed_streams import ARRIVAL, COLUMNS, ID, KEY, STREAM, HashedStreams
from spark_jobs.joins.structures.multi_way_probe import END, START, held_from, incomplete, join_sorted, join_with

# Parts of the budget: the write buffers, and what a step of work takes for itself.
_BUFFER_SHARE, _WORK_SHARE = 8, 8
_PIECE_TUPLE_BYTES = 96  # numbers, flags and copies of tuples that are being taken
_MOST_IN_A_PIECE = 1 << 16
# A flush frees this part of the memory, so that not every tuple needs one.
_FLUSHED_SHARE = 32
_BUCKETS_AT_ONCE = 1 << 12
# Of a key with more tuples than fit, at least so many of each stream are joined at once.
_LEAST_OF_A_KEY = 16


class MultiWayJoin(StreamStreamJoin):
    """All but the way in which a tuple in memory finds its partners, and what that needs to know.

    Args:
        streams: from 2 to 16.
        predicate: equality.
        memory_bytes: the budget.
        spill: where flushed hash values go.
        flush: which those are.

    Raises:
        MemoryBudgetError: the budget does not hold a tuple, a write buffer and what a step of work takes.
        ValueError: the predicate is another one.
    """

    algorithm: str
    """Its name in the catalogue."""

    def __init__(
        self, streams: int, predicate: Predicate, memory_bytes: int, spill: SpillStore, flush: ValueFlushing
    ) -> None:
        super().__init__(streams, predicate)
        expect_equality(self.algorithm, predicate)
        self._memory = memory_bytes
        self._flush_policy = flush
        buffer_bytes = memory_bytes // _BUFFER_SHARE
        self._spilled = SpilledValues(spill, buffer_bytes)
        read_bytes = self._spilled.extent_tuples * READ_TUPLE_BYTES
        window_bytes = max(memory_bytes // _WORK_SHARE - read_bytes, streams * _LEAST_OF_A_KEY * WINDOW_TUPLE_BYTES)
        self._work_bytes = read_bytes + window_bytes
        self._window = window_bytes // WINDOW_TUPLE_BYTES
        self._piece = min(_MOST_IN_A_PIECE, max(1, self._work_bytes // _PIECE_TUPLE_BYTES))
        self.capacity = tuples_within(
            memory_bytes,
            self._work_bytes + self._spilled.memory_used(),
            self._bytes_for,
            algorithm=self.algorithm,
            fixed="a write buffer, what a step of work takes",
        )
        self._tables = HashedStreams(self.capacity, streams)
        # A flag for each hash value: whether its tuples go to disk.
        self._flags: NDArray[np.uint8] = np.zeros(len(self._tables.heads), np.uint8)
        self._arrivals = 0
        self.values_flushed = 0
        """Hash values whose tuples go to disk."""
        self.tuples_freed = 0
        """Tuples that left memory with their hash values; later ones of these values were never in the tables."""

    @property
    def is_work(self) -> bool:
        """Whether tuples of flushed values wait to be joined."""
        return not self._finished and bool(self._spilled.fresh.any())

    def memory_used(self) -> int:
        """Bytes of tables, flags, write buffers and what is set aside for a step of work."""
        directories = self._flags.nbytes + self._own_bytes()
        return self._tables.memory_used() + directories + self._spilled.memory_used() + self._work_bytes

    def tuples_in_memory(self) -> int:
        """Those in the tables and in the write buffers."""
        return len(self._tables) + self._spilled.buffered

    def tuples_on_disk(self) -> int:
        """Those of flushed values, but for what is in the write buffers."""
        return self._spilled.on_disk

    def check(self) -> None:
        """Assert that tables and buffers are sound, and no tuple of a flushed value is in the tables. O(memory)."""
        assert self.memory_used() <= self._memory
        self._tables.check()
        self._spilled.check()
        assert not self._tables.heads[self._flags != 0].any()
        assert self.values_flushed == int(self._flags.sum())

    def join_of(self, streams: Sequence[int]) -> Iterator[Results]:
        """The join of some of the streams, of what they have brought until now (002 §2.3); changes nothing.

        Tuples on disk are read; O(memory + results) besides.

        Args:
            streams: at least two, each once.

        Yields:
            Results whose ids have a row for each of these streams, in this order.

        Raises:
            ValueError: not such streams.
        """
        wanted = list(streams)
        if len(wanted) < 2 or len(set(wanted)) < len(wanted) or not set(wanted) <= set(range(self.streams)):
            raise ValueError(f"at least two of {self.streams} streams are joined, each once: not {wanted}")
        first, others = wanted[0], np.array(wanted[1:], np.int64)
        held = np.empty((2, self._piece), np.int64)
        at = START
        while at != END:
            count, at = held_from(self._tables, first, at, held)
            keys, ids = self._promising(held[0, :count], held[1, :count], wanted)
            found = join_with(self._tables, first, keys, ids, others)
            self.statistics.probes += int(found.probes.sum())
            if found.ids.shape[1]:
                yield Results(found.ids[wanted])
        in_order = sorted(wanted)
        for partition in range(self._spilled.partitions):
            for window in self._spilled.windows(partition, self._window):
                for ids in self._results_of(partition, window, in_order, since=JOINED):
                    yield Results(ids[np.searchsorted(in_order, wanted)])

    def _arrive(self, stream: int, tuples: Tuples) -> Results:
        found = []
        first = 0
        while first < len(tuples.ids):
            if not self._tables.room:
                self._flush()
            until = first + min(self._piece, self._tables.room)
            ids = self._take(stream, tuples.keys[first:until], tuples.ids[first:until])
            if ids.shape[1]:
                # A copy: what a kernel gives has room for more.
                found.append(ids.copy())
            first = until
        return Results(np.concatenate(found, axis=1)) if found else self._none()

    def _take(self, stream: int, keys: Int64Array, ids: Int64Array) -> Int64Array:
        arrivals = np.arange(self._arrivals, self._arrivals + len(keys))
        self._arrivals += len(keys)
        if self.values_flushed:
            away = self._flags[self._tables.bucket_of(keys)] != 0
            if away.any():
                columns = np.stack((keys[away], ids[away], arrivals[away], np.full(int(away.sum()), stream)))
                self.statistics.flushed += self._spilled.add(columns)
                keys, ids, arrivals = keys[~away], ids[~away], arrivals[~away]
        found = self._joined(stream, keys, ids)
        self._tables.insert(stream, keys, ids, arrivals)
        return found

    def _flush(self) -> None:
        """Make room: hash values leave until a part of the memory is free."""
        wanted = -(-self.capacity // _FLUSHED_SHARE)
        taken = np.empty((COLUMNS, self._piece), np.int64)
        while self._tables.room < wanted:
            values = self._flush_policy.choose(self._tables, self._bit_vectors, wanted - self._tables.room, self._piece)
            first = 0
            while first < len(values):
                count, first = self._tables.take_buckets(values, first, taken)
                leaving = taken[:, :count]
                self.tuples_freed += count
                self._leave(leaving[KEY])
                leaving[ARRIVAL] = JOINED
                self.statistics.flushed += self._spilled.add(leaving)
            values = np.unique(values)
            self.values_flushed += int((self._flags[values] == 0).sum())
            self._flags[values] = 1

    def _step(self) -> Results:
        """Join the partition on disk of which most is new."""
        partition = int(np.argmax(self._spilled.fresh))
        found = [np.empty((self.streams, 0), np.int64)]
        since, everything = int(self._spilled.since[partition]), range(self.streams)
        for window in self._spilled.windows(partition, self._window):
            found += self._results_of(partition, window, everything, since)
        self._spilled.settled(partition, self._arrivals)
        return Results(np.concatenate(found, axis=1))

    def _finish(self) -> Iterator[Results]:
        """Memory first: no stream has more to bring. Then each partition on disk."""
        nothing, everything = self._none().ids, range(self.streams)
        buckets = len(self._tables.heads)
        for first in range(0, buckets, _BUCKETS_AT_ONCE):
            unmatched = incomplete(self._tables, first, min(first + _BUCKETS_AT_ONCE, buckets))
            if unmatched.size:
                yield Results(nothing, unmatched=unmatched)
        for partition in range(self._spilled.partitions):
            since = int(self._spilled.since[partition])
            for window in self._spilled.windows(partition, self._window, last_time=True):
                for ids in self._results_of(partition, window, everything, since):
                    yield Results(ids)
                for unmatched in self._unmatched_of(partition, window):
                    yield Results(nothing, unmatched=unmatched)

    def _results_of(self, partition: int, window: Window, streams: Sequence[int], since: int) -> Iterator[Int64Array]:
        """Results among a window's tuples of some streams, ascending, one of which at least arrived from `since` on."""
        key = window.key
        if key is None:
            parts: Iterator[Int64Array] = iter((window.columns,))
        else:
            parts = self._combinations(partition, key, streams)
        for columns in parts:
            ids = join_sorted(self._numbered_among(columns, streams), len(streams), since)
            if ids.shape[1]:
                yield ids

    def _combinations(self, partition: int, key: int, streams: Sequence[int]) -> Iterator[Int64Array]:
        """Every combination of a block of each stream's tuples with a key: nested loops over what does not fit."""
        most = self._window // self.streams
        for block in self._spilled.blocks(partition, key, streams[0], most):
            if len(streams) == 1:
                yield block
            else:
                for others in self._combinations(partition, key, streams[1:]):
                    yield np.concatenate((block, others), axis=1)

    def _numbered_among(self, columns: Int64Array, streams: Sequence[int]) -> Int64Array:
        """The tuples of some streams, as if there were no others."""
        if len(streams) == self.streams:
            return columns
        columns = columns[:, np.isin(columns[STREAM], streams)]
        columns[STREAM] = np.searchsorted(streams, columns[STREAM])
        return columns

    def _unmatched_of(self, partition: int, window: Window) -> Iterator[Int64Array]:
        """Stream and id of tuples whose key a stream has not: none of the key's tuples is in a result."""
        if window.key is None:
            keys, _, _, streams = window.columns
            other_key = np.diff(keys, prepend=keys[0]) != 0
            key_of = np.cumsum(other_key)
            other_stream = other_key | (np.diff(streams, prepend=-1) != 0)
            lacking = np.bincount(key_of[other_stream])[key_of] < self.streams
            if lacking.any():
                yield window.columns[[STREAM, ID]][:, lacking]
            return

        key = window.key

        def blocks(stream: int) -> Iterator[Int64Array]:
            return self._spilled.blocks(partition, key, stream, self._window)

        if not all(any(True for _ in blocks(stream)) for stream in range(self.streams)):
            for stream in range(self.streams):
                for block in blocks(stream):
                    yield block[[STREAM, ID]]

    def _bytes_for(self, capacity: int) -> int:
        """Memory of tables and directories for so many tuples."""
        tables = HashedStreams.bytes_for(capacity, self.streams)
        return tables + (1 << (capacity.bit_length() - 1)) + self._own_bytes_for(capacity)

    _bit_vectors: BitVectorTable | None = None
    """What AMJoin has."""

    @abstractmethod
    def _joined(self, stream: int, keys: Int64Array, ids: Int64Array) -> Int64Array:
        """Results of tuples with those in memory, shape (streams, m); they are about to be kept there."""

    @abstractmethod
    def _promising(self, keys: Int64Array, ids: Int64Array, streams: Sequence[int]) -> tuple[Int64Array, Int64Array]:
        """Those of some tuples that may be in a result of some streams."""

    def _leave(self, keys: Int64Array) -> None:
        """All tuples with these keys have left memory."""

    def _own_bytes_for(self, capacity: int) -> int:
        """Memory of the algorithm's own directories."""
        return 0

    def _own_bytes(self) -> int:
        """What they take."""
        return 0
