"""The keys of the front stage's cache, frozen: what stream tuples are probed against."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.structures.jit import read_only
from spark_jobs.joins.structures.key_table import KeyTable

Int64Array = NDArray[np.int64]


class HotSet:
    """One version of the cache H_R (003 §3.1): keys of the frequent tuples of R, each with its slot.

    Read-only, and pickled as its arrays, for sending to workers. The tuples themselves stay with the
    caller, in the order of the slots.

    Args:
        version: counts up with every change.
        keys: int64, shape (n,), distinct; keys[s] is the key of slot s.
    """

    def __init__(self, version: int, keys: Int64Array) -> None:
        self.version = version
        self._table = KeyTable(max(1, len(keys)))
        self._table.insert(keys)

    @staticmethod
    def bytes_for(slot_count: int) -> int:
        """Memory of a hot set of this size, in bytes."""
        return KeyTable.bytes_for(max(1, slot_count))

    @property
    def slot_count(self) -> int:
        """Tuples in the cache."""
        return self._table.size

    @property
    def keys(self) -> Int64Array:
        """Their keys in slot order, int64, shape (slot_count,)."""
        return read_only(self._table.keys[: self._table.size])

    def probe(self, codes: Int64Array, valid: NDArray[np.bool_] | None = None) -> Int64Array:
        """Slots of stream tuples' keys; -1 for a key that is not in the cache.

        Args:
            codes: int64, shape (n,), join keys, or hash codes of them.
            valid: bool, shape (n,), False where the code means nothing (a null key); all True if left out.

        Returns:
            int64, shape (n,). O(n): 4 to 25 ns each, by the number of slots.
        """
        slots = self._table.probe(np.ascontiguousarray(codes, np.int64))
        if valid is not None:
            slots[~valid] = -1
        return slots

    def part(
        self, keys: Int64Array, pages: Int64Array, ids: Int64Array
    ) -> tuple[tuple[Int64Array, ...], tuple[Int64Array, ...]]:
        """Part stream tuples, int64, shape (n,) each: slots and ids of the hits; keys, pages and ids of the misses."""
        return self._table.part(keys, pages, ids)

    def memory_used(self) -> int:
        """Bytes of its arrays."""
        return self._table.memory_used()

    def check(self) -> None:
        """Assert that every key is found at its slot. O(slot_count)."""
        self._table.check()
