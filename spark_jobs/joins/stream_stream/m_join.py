"""MJoin: all streams at once, without intermediate results (Viglas, Naughton, Burger, VLDB 2003; 002 §2).

tuple of stream 2:   table 4: there   table 1: there   table 3: not there   (table 0: not asked)
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_jobs.joins.stream_stream.base import Int64Array
from spark_jobs.joins.stream_stream.multi_way_join import MultiWayJoin
from spark_jobs.joins.stream_stream.predicates import Predicate
from spark_jobs.joins.stream_stream.probe_order import ObservedSelectivity, ProbeOrder
from spark_jobs.joins.stream_stream.spill import SpillStore
from spark_jobs.joins.stream_stream.value_flushing import RandomValue, ValueFlushing
from spark_jobs.joins.structures.multi_way_probe import BLOCK, join_with


class MJoin(MultiWayJoin):
    """Looks a tuple up in one table after the other, and stops at the first that has not its key.

    O(streams) a tuple and O(1) a result. It departs from the paper in one thing: the tables of all streams share their
    buckets, so that those looked into after the first cost little more.

    Args:
        streams: from 2 to 16.
        predicate: equality.
        memory_bytes: the budget.
        spill: where flushed hash values go.
        order: of the tables; the one that rejects most first, as observed, if left out.
        flush: which hash values are flushed; random ones if left out.
        block: tuples looked up together; 1 is one at a time.

    Raises:
        MemoryBudgetError: the budget does not hold a tuple, a write buffer and what a step of work takes.
        ValueError: the predicate is another one, or the flushing policy needs bit vectors.
    """

    algorithm = "m_join"

    def __init__(
        self,
        streams: int,
        predicate: Predicate,
        memory_bytes: int,
        spill: SpillStore,
        *,
        order: ProbeOrder | None = None,
        flush: ValueFlushing | None = None,
        block: int = BLOCK,
    ) -> None:
        flush = flush or RandomValue()
        if flush.needs_bits:
            raise ValueError(f"m_join has no bit vectors, which {type(flush).__name__} looks at: take am_join")
        super().__init__(streams, predicate, memory_bytes, spill, flush)
        self._order = order or ObservedSelectivity()
        self._block = block

    def _joined(self, stream: int, keys: Int64Array, ids: Int64Array) -> Int64Array:
        found = join_with(self._tables, stream, keys, ids, self._order.order(stream, self.streams), self._block)
        self._order.learn(stream, found.probes, found.hits)
        self.statistics.probes += int(found.probes.sum())
        return found.ids

    def _promising(self, keys: Int64Array, ids: Int64Array, streams: Sequence[int]) -> tuple[Int64Array, Int64Array]:
        return keys, ids
