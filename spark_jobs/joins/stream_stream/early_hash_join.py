"""Early hash join: XJoin that keeps the smaller stream in memory, and drops tuples at their only match.

    one_to_many    a tuple of stream 1 has one match at most: once found it is not stored, or leaves memory
    one_to_one     the same on both sides

Lawrence: Early Hash Join: A Configurable Algorithm for the Efficient and Early Production of Join Results, 2005
(000 §2, 003 §2).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from spark_jobs.joins.stream_stream.base import Int64Array, Tuples
from spark_jobs.joins.stream_stream.flushing import FlushingPolicy, biased
from spark_jobs.joins.stream_stream.predicates import Predicate
from spark_jobs.joins.stream_stream.spill import SpillStore
from spark_jobs.joins.stream_stream.spilled_partitions import paired
from spark_jobs.joins.stream_stream.x_join import XJoin

Cardinality = Literal["many_to_many", "one_to_many", "many_to_one", "one_to_one"]
# For each stream, whether its tuples have one match at most: the other stream brings each key once.
_SINGLE: dict[Cardinality, tuple[bool, bool]] = {
    "many_to_many": (False, False),
    "one_to_many": (False, True),
    "many_to_one": (True, False),
    "one_to_one": (True, True),
}


class EarlyHashJoin(XJoin):
    """XJoin with biased flushing, told how many tuples have a key.

    What has found its only match needs neither memory nor disk, nor numbers to tell that it was found. Tuples that find
    it on disk are told apart by numbers as in XJoin.

    Args:
        streams: two.
        predicate: equality.
        memory_bytes: the budget.
        spill: the disk.
        cardinality: how often keys come, in stream 0 and in stream 1. It is the caller's promise: of a tuple whose
            stream breaks it, results may be missing.
        flushing: what is flushed when memory is full.
        options: XJoin's.

    Raises:
        MemoryBudgetError: the budget does not hold one tuple.
        ValueError: there is no such cardinality, the predicate is another one, or there are other than two streams.
    """

    name = "early_hash_join"

    def __init__(
        self,
        streams: int,
        predicate: Predicate,
        memory_bytes: int,
        spill: SpillStore,
        *,
        cardinality: Cardinality = "many_to_many",
        flushing: FlushingPolicy | None = None,
        **options: Any,
    ) -> None:
        super().__init__(streams, predicate, memory_bytes, spill, flushing=flushing or biased(), **options)
        if cardinality not in _SINGLE:
            raise ValueError(f"there is no cardinality {cardinality!r}; there are {', '.join(_SINGLE)}")
        self._single = _SINGLE[cardinality]

    def _meet(self, stream: int, tuples: Tuples) -> Int64Array:
        if not any(self._single):
            return super()._meet(stream, tuples)
        found = self.parts.memory.probe(1 - stream, tuples.keys, mark=True)
        self.statistics.probes += len(tuples.keys)
        matched = np.zeros(len(tuples.keys), bool)
        matched[found.rows] = True
        if self._single[1 - stream]:
            forgotten, _ = self.parts.forget_keys(1 - stream, tuples.keys[matched])
            self.statistics.purged += int(forgotten.sum())
        stored = tuples
        if self._single[stream]:
            stored = tuples.part(~matched)
            self.statistics.purged += int(matched.sum())
        places = self.parts.store(stream, stored.keys, stored.ids)
        if stored is tuples:
            self.parts.memory.mark_matched(places[matched])
        return paired(stream, tuples.ids[found.rows], found.ids)
