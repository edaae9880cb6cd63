"""Index nested loop join with one lookup for a batch of distinct keys: what a modern database makes of INLJ."""

from __future__ import annotations

import numpy as np

from spark_jobs.joins.memory_budget import tuples_within
from spark_jobs.joins.semi_stream.base import Int64Array, Matches, Page, QueuedJoin, Relation, Step
from spark_jobs.joins.structures.arrival_queue import ArrivalQueue
from spark_jobs.joins.structures.key_table import KeyTable

# Beyond this a larger batch saves nothing, but lets the caller wait longer between two decisions.
_MOST_KEYS = 8192
# Stream tuples considered for a batch, per key that the batch may have: repeated keys ride along.
_TUPLES_PER_KEY = 4
# Working arrays of a step per considered tuple: key, id, slot, row.
_WORKING_BYTES = 4 * 8


class BatchedIndexNestedLoop(QueuedJoin[ArrivalQueue]):
    """INLJ (000 §3) with batched lookups: the oldest stream tuples, up to a number of distinct keys, in one access.

    How many keys a batch may have follows from the memory for their tuples of R. How large these are
    shows only when some have been read: the first batch is small, as if each tuple filled a page. From
    then on the largest mean of a lookup counts: where tuples differ much in size, a lookup that meets many
    of the widest ones may take more than its half of the memory, until the next one is cut smaller.

    Args:
        relation: R.
        memory_bytes: half of it holds what a lookup brings, the rest the keys of a batch and the queue.
        most_keys: keys of a batch at most, however much memory there is.

    Raises:
        MemoryBudgetError: the budget does not hold a page and one stream tuple.
    """

    def __init__(self, relation: Relation, memory_bytes: int, most_keys: int = _MOST_KEYS) -> None:
        super().__init__()
        self._relation = relation
        self._lookup_bytes = max(relation.page_bytes, memory_bytes // 2)
        left = memory_bytes - self._lookup_bytes
        fitting = max(1, min(_MOST_KEYS, left // (2 * _batch_bytes(1))))
        self._most_keys = min(most_keys, fitting)
        # However few keys a lookup may have: all tuples that wait for them are to ride along.
        self._considered = _TUPLES_PER_KEY * fitting
        fixed_bytes = self._lookup_bytes + _batch_bytes(fitting)
        fixed = f"what a lookup brings (up to a page of {relation.page_bytes:,} bytes)"
        self.capacity = tuples_within(
            memory_bytes, fixed_bytes, ArrivalQueue.bytes_for, algorithm="batched_index_nested_loop", fixed=fixed
        )
        self._waiting = ArrivalQueue(self.capacity)
        self._batch = KeyTable(self._most_keys)
        self._widest_tuple: float | None = None
        self._found: Page | None = None

    @property
    def batch_keys(self) -> int:
        """How many distinct keys the next lookup may have."""
        widest = self._relation.page_bytes if self._widest_tuple is None else self._widest_tuple
        return max(1, min(self._most_keys, int(self._lookup_bytes / widest)))

    def memory_used(self) -> int:
        """Bytes of the queue, of the batch's key table, and of what the last lookup brought."""
        found = self._found.size if self._found else 0
        return self._waiting.memory_used() + self._batch.memory_used() + found

    def check(self) -> None:
        """Assert the invariants of queue and key table. O(keys of a batch)."""
        self._waiting.check()
        self._batch.check()

    def _take_in(self, keys: Int64Array, pages: Int64Array, ids: Int64Array) -> None:
        self._waiting.append(keys, ids)

    def _step(self) -> Step:
        keys, ids = self._waiting.oldest(self._considered)
        self._batch.clear()
        slots = self._batch.insert(keys, self.batch_keys)
        ids = ids[: len(slots)]
        distinct = self._batch.keys[: self._batch.size]
        askers = np.empty(len(distinct), np.int64)
        askers[slots] = ids
        found = self._look_up(distinct.copy(), askers)
        self._waiting.drop_oldest(len(ids))

        rows = self._rows_of_slots(found)[slots]
        matched = rows >= 0
        return Step(Matches(ids[matched], rows[matched], found), ids[~matched])

    def _rows_of_slots(self, found: Page) -> Int64Array:
        """For each key of the batch the row where the lookup found it, -1 where it did not."""
        rows = np.full(self._batch.size, -1, np.int64)
        slots = self._batch.probe(found.keys)
        asked = np.flatnonzero(slots >= 0)
        rows[slots[asked]] = asked
        return rows

    def _look_up(self, keys: Int64Array, askers: Int64Array) -> Page:
        self._found = None
        found = self._found = self._relation.lookup(keys, askers)
        self.statistics.lookups += 1
        self.statistics.probes += len(keys)
        self.statistics.bytes_read += found.size
        if len(found.keys):
            self._widest_tuple = max(1.0, self._widest_tuple or 0.0, found.size / len(found.keys))
        return found

    def _give_up(self, count: int) -> Int64Array:
        """Shed the oldest, as all algorithms do whose tuples cost about the same."""
        _, ids = self._waiting.oldest(count)
        self._waiting.drop_oldest(count)
        return ids


def _batch_bytes(keys: int) -> int:
    """Memory of a batch of distinct keys: its table, and the working arrays of the tuples considered for it."""
    return KeyTable.bytes_for(keys) + _TUPLES_PER_KEY * keys * _WORKING_BYTES
