"""AMJoin: MJoin with a bit-vector hash table, which tells by one look whether all streams have a key (002 §2).

tuple of stream 2:   bit vector 1 0 1 1 0 -> set its own -> 1 0 1 1 0: not all, no table is asked
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spark_jobs.joins.stream_stream.base import Int64Array
from spark_jobs.joins.stream_stream.multi_way_join import MultiWayJoin
from spark_jobs.joins.stream_stream.predicates import Predicate
from spark_jobs.joins.stream_stream.spill import SpillStore
from spark_jobs.joins.stream_stream.value_flushing import MostBits, ValueFlushing
from spark_jobs.joins.structures.bit_vector_table import BLOCK, BitVectorTable
from spark_jobs.joins.structures.multi_way_probe import join_with


class AMJoin(MultiWayJoin):
    """Looks a tuple up in the tables only if the bit vector of its hash says that all the others have it.

    O(1) a tuple that finds no partner, O(streams) another one. Results are exact: where two keys share a bit vector,
    the tables are asked in vain. As tuples leave hash value by hash value, of all streams, no bit outlives its tuples.

    Args:
        streams: from 2 to 16, a bit each.
        predicate: equality.
        memory_bytes: the budget.
        spill: where flushed hash values go.
        flush: which hash values are flushed; those with most bits set if left out.
        exact_bits: whether a bit vector belongs to a key, not a hash, for 8 bytes more; spares vain probes.
        block: tuples looked up together; 1 is one at a time, as in the paper.

    Raises:
        MemoryBudgetError: the budget does not hold a tuple, a write buffer and what a step of work takes.
        ValueError: the predicate is another one.
    """

    algorithm = "am_join"

    def __init__(
        self,
        streams: int,
        predicate: Predicate,
        memory_bytes: int,
        spill: SpillStore,
        *,
        flush: ValueFlushing | None = None,
        exact_bits: bool = False,
        block: int = BLOCK,
    ) -> None:
        self._exact_bits = exact_bits
        super().__init__(streams, predicate, memory_bytes, spill, flush or MostBits())
        self._bits = BitVectorTable(self.capacity, exact=exact_bits)
        self._bit_vectors = self._bits
        self._all = (1 << streams) - 1
        self._orders = [np.array([s for s in range(streams) if s != own], np.int64) for own in range(streams)]
        self._block = block

    def check(self) -> None:
        """Assert also that each tuple's bit is set, and that there is no bit vector without a tuple. O(memory)."""
        super().check()
        self._bits.check()
        expected: dict[int, int] = {}
        for stream in range(self.streams):
            for bucket in np.flatnonzero(self._tables.heads[:, stream]):
                place = int(self._tables.heads[bucket, stream])
                while place:
                    key = int(self._tables.tuples["key"][place])
                    expected[key] = expected.get(key, 0) | 1 << stream
                    place = int(self._tables.tuples["next"][place])
        keys = np.array(list(expected), np.int64)
        bits = np.array(list(expected.values()), np.int64)
        found = self._bits.bits_of(keys)
        assert (found & bits == bits).all()
        assert len(self._bits) <= len(keys)
        if len(self._bits) == len(keys):
            assert (found == bits).all()

    def _joined(self, stream: int, keys: Int64Array, ids: Int64Array) -> Int64Array:
        complete = self._bits.add(stream, keys, self._all, self._block)
        found = join_with(self._tables, stream, keys[complete], ids[complete], self._orders[stream], self._block)
        self.statistics.probes += len(keys) + int(found.probes.sum())
        return found.ids

    def _promising(self, keys: Int64Array, ids: Int64Array, streams: Sequence[int]) -> tuple[Int64Array, Int64Array]:
        wanted = sum(1 << stream for stream in streams)
        self.statistics.probes += len(keys)
        promising = self._bits.bits_of(keys) & wanted == wanted
        return keys[promising], ids[promising]

    def _leave(self, keys: Int64Array) -> None:
        self._bits.remove(np.ascontiguousarray(keys))

    def _own_bytes_for(self, capacity: int) -> int:
        return BitVectorTable.bytes_for(capacity, exact=self._exact_bits)

    def _own_bytes(self) -> int:
        return self._own_bytes_for(self.capacity)
