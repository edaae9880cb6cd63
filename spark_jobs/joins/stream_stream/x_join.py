"""XJoin: the symmetric hash join with a disk; pauses of the inputs are used to join what lies there.

    stage 1   a tuple arrives       it meets what the other stream has in memory, and is stored;
                                    a full memory flushes partitions to disk
    stage 2   the inputs pause      the disk part of a partition meets what the other stream has in memory
    stage 3   the streams have ended    disk parts meet each other

Urhan and Franklin, XJoin: A Reactively-Scheduled Pipelined Join Operator, 2000 (001 §1, §3).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spark_jobs.joins.stream_stream.activation import Activation
from spark_jobs.joins.stream_stream.base import Int64Array, Results, StreamStreamJoin, Tuples
from spark_jobs.joins.stream_stream.flushing import FlushingPolicy, largest_partition
from spark_jobs.joins.stream_stream.predicates import Predicate, expect_equality
from spark_jobs.joins.stream_stream.spill import SpillStore
from spark_jobs.joins.stream_stream.spilled_partitions import STREAMS, SpilledPartitions, expect_two_streams, paired


class XJoin(StreamStreamJoin):
    """Joins two streams by equal keys, within any memory.

    O(1) a tuple and a result in memory. A tuple that leaves memory is written once, and read at the end, and once in
    each pass over its disk part.

    Args:
        streams: two.
        predicate: equality.
        memory_bytes: the budget.
        spill: the disk.
        flushing: what is flushed when memory is full.
        activation: when a pause is used to read a disk part.
        partitions: a power of two; if left out, as many as the pages of the disk allow, 64 at most.

    Raises:
        MemoryBudgetError: the budget does not hold one tuple.
        ValueError: the predicate is another one, or there are other than two streams.
    """

    name = "x_join"

    def __init__(
        self,
        streams: int,
        predicate: Predicate,
        memory_bytes: int,
        spill: SpillStore,
        *,
        flushing: FlushingPolicy | None = None,
        activation: Activation | None = None,
        partitions: int | None = None,
    ) -> None:
        super().__init__(streams, predicate)
        expect_equality(self.name, predicate)
        expect_two_streams(self.name, streams)
        self.parts = self._partitions(memory_bytes, spill, partitions)
        self._flushing = flushing or largest_partition()
        self._activation = activation or Activation()

    def _partitions(self, memory_bytes: int, spill: SpillStore, partitions: int | None) -> SpilledPartitions:
        return SpilledPartitions(memory_bytes, spill, algorithm=self.name, partitions=partitions)

    @property
    def is_work(self) -> bool:
        """Whether a disk part is worth reading."""
        return not self._finished and self._activation.due(self.parts.fresh, self.parts.on_disk)

    def memory_used(self) -> int:
        """Bytes of the partitions in memory, their directory, and scratch space."""
        return self.parts.memory_used()

    def tuples_in_memory(self) -> int:
        """Tuples of both streams."""
        return int(self.parts.memory.counts[:STREAMS].sum())

    def tuples_on_disk(self) -> int:
        """Tuples of both streams."""
        return int(self.parts.on_disk.sum())

    def check(self) -> None:
        """Assert that memory and directory are sound and within the budget. O(memory)."""
        self.parts.check()

    def _arrive(self, stream: int, tuples: Tuples) -> Results:
        found = []
        first, count = 0, len(tuples.ids)
        while first < count:
            until = first + min(count - first, self.parts.piece)
            while self.parts.memory.room < until - first:
                self._make_room()
            found.append(self._meet(stream, tuples.part(slice(first, until))))
            first = until
        return Results(np.concatenate(found, axis=1))

    def _meet(self, stream: int, tuples: Tuples) -> Int64Array:
        """Stage 1: results with what is in memory, shape (2, m); the tuples are stored, there is room."""
        found = self.parts.meet(stream, tuples.keys, tuples.ids)
        self.statistics.probes += len(tuples.keys)
        return paired(stream, tuples.ids[found.rows], found.ids)

    def _make_room(self) -> None:
        """Flush what the policy chooses."""
        for stream, partition in self._flushing.choose(self.parts.memory.counts[:STREAMS], self.parts.on_disk):
            self._flush(stream, partition)

    def _flush(self, stream: int, partition: int) -> None:
        self.statistics.flushed += int(self.parts.memory.counts[stream, partition])
        self.parts.flush(stream, partition)

    def _step(self) -> Results:
        """Stage 2, for one disk part."""
        stream, partition = self._activation.next(self.parts.fresh, self.parts.on_disk)
        self.statistics.probes += int(self.parts.on_disk[stream, partition])
        return self.parts.pass_over(stream, partition)

    def _finish(self) -> Iterator[Results]:
        """Stage 3."""
        yield from self.parts.settle_all()
