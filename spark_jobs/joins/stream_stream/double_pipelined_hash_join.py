"""Double pipelined hash join: a partition that once left memory is out of the pipeline, and waits for the end.

    memory is full     the largest partition goes to disk on both sides, and stays closed
    a tuple arrives    in an open partition it joins and is stored; for a closed one it is marked: not joined in memory
    the end            marked tuples join with all of their partition, the others with the marked ones

Ives, Florescu, Friedman, Levy, Weld: An Adaptive Query Execution System for Data Integration, 1999, §4.2 (incremental
symmetric flush); 000 §2, 003 §2.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.stream_stream.activation import NEVER
from spark_jobs.joins.stream_stream.base import Int64Array, Results, Tuples
from spark_jobs.joins.stream_stream.flushing import whole_partition
from spark_jobs.joins.stream_stream.predicates import Predicate
from spark_jobs.joins.stream_stream.spill import SpillStore
from spark_jobs.joins.stream_stream.spilled_partitions import NONE, STREAMS, paired
from spark_jobs.joins.stream_stream.x_join import XJoin


class DoublePipelinedHashJoin(XJoin):
    """XJoin's partitions without its pauses: what is flushed gives no result before the end.

    The mark is the tuple's number of departure: one that lies before its arrival says that it never was in memory.
    Marked tuples wait in what memory is free until they fill a page.

    Args:
        streams: two.
        predicate: equality.
        memory_bytes: the budget.
        spill: the disk.
        partitions: a power of two; if left out, as many as the pages of the disk allow, 64 at most.

    Raises:
        MemoryBudgetError: the budget does not hold one tuple.
        ValueError: the predicate is another one, or there are other than two streams.
    """

    name = "double_pipelined_hash_join"

    def __init__(
        self, streams: int, predicate: Predicate, memory_bytes: int, spill: SpillStore, *, partitions: int | None = None
    ) -> None:
        super().__init__(
            streams,
            predicate,
            memory_bytes,
            spill,
            flushing=whole_partition(),
            activation=NEVER,
            partitions=partitions,
        )

    def _meet(self, stream: int, tuples: Tuples) -> Int64Array:
        joining = ~self._closed()[self.parts.memory.partition_of(tuples.keys)]
        found = self.parts.meet(stream, tuples.keys, tuples.ids, probing=joining)
        self.statistics.probes += int(joining.sum())
        return paired(stream, tuples.ids[found.rows], found.ids)

    def _make_room(self) -> None:
        counts, closed = self.parts.memory.counts, self._closed()
        full = np.argwhere(closed & (counts >= self.parts.page_tuples)).tolist()
        for stream, partition in full or self._flushing.choose(counts, self.parts.on_disk):
            self.statistics.flushed += int(counts[stream, partition])
            self.parts.flush(stream, partition, NONE if closed[partition] else None)

    def _finish(self) -> Iterator[Results]:
        for partition in np.flatnonzero(self._closed()).tolist():
            for stream in range(STREAMS):
                self.parts.flush(stream, partition, NONE)
        yield from super()._finish()

    def _closed(self) -> NDArray[np.bool_]:
        """The partitions that left memory once."""
        return self.parts.on_disk.sum(axis=0) > 0
