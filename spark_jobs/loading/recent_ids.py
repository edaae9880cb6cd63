"""Which events this host's workers have loaded lately: where duplicates are likely before the warehouse is asked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.loading.bloom_filter import BloomFilter
from spark_jobs.loading.held_rows import hash_of_name

Int64Array = NDArray[np.int64]
Bools = NDArray[np.bool_]

_MEMORY = 16 << 20  # 6 to 12 million events


class RecentIds:
    """Hash codes of event ids that were loaded lately, by all processes that are forked from where this is made.

    What it says is a hint. It takes some events for loaded that are not (1 %), and overlooks some that are: those of
    which it has forgotten, half at a time when it is full; those that another host's workers have loaded, or that two
    processes noted in the same moment.

    Args:
        memory: bytes, of all processes together.
    """

    def __init__(self, memory: int = _MEMORY) -> None:
        self._halves = [BloomFilter(memory // 2, shared=True) for _ in range(2)]

    def add(self, pipeline: str, hashes: Int64Array) -> None:
        """Note events of a pipeline, by the hash codes of their ids, int64, shape (n,). O(n)."""
        younger, older = self._halves if not self._is_full(self._halves[0]) else reversed(self._halves)
        younger.add(hashes ^ hash_of_name(pipeline))
        if self._is_full(younger):
            older.clear()

    def among(self, pipeline: str, hashes: Int64Array) -> Bools:
        """Which of these events were likely loaded lately, bool, shape (n,). O(n)."""
        codes = hashes ^ hash_of_name(pipeline)
        return self._halves[0].may_contain(codes) | self._halves[1].may_contain(codes)

    @staticmethod
    def _is_full(half: BloomFilter) -> bool:
        return half.added >= half.bears


# Made where this is imported: before workers are forked, which share it.
RECENT_IDS = RecentIds()
