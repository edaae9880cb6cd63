"""Index nested loop join: one lookup in R for every stream tuple. The baseline of both papers."""

from __future__ import annotations

from spark_jobs.joins.memory_budget import tuples_within
from spark_jobs.joins.semi_stream.base import Int64Array, Page, QueuedJoin, Relation, Step
from spark_jobs.joins.structures.arrival_queue import ArrivalQueue


class IndexNestedLoop(QueuedJoin[ArrivalQueue]):
    """INLJ (000 §3): takes the oldest stream tuple, looks its key up, joins it.

    Every tuple costs one access to R, however many others have the same key.

    Args:
        relation: R.
        memory_bytes: split into what one lookup brings, up to a page, and the queue.

    Raises:
        MemoryBudgetError: the budget does not hold a page and one stream tuple.
    """

    def __init__(self, relation: Relation, memory_bytes: int) -> None:
        super().__init__()
        self._relation = relation
        fixed = f"what a lookup brings (up to a page of {relation.page_bytes:,} bytes)"
        self.capacity = tuples_within(
            memory_bytes, relation.page_bytes, ArrivalQueue.bytes_for, algorithm="index_nested_loop", fixed=fixed
        )
        self._waiting = ArrivalQueue(self.capacity)
        self._found: Page | None = None

    def memory_used(self) -> int:
        """Bytes of the queue and of what the last lookup brought."""
        return self._waiting.memory_used() + (self._found.size if self._found else 0)

    def check(self) -> None:
        """Assert the invariants of the queue. O(1)."""
        self._waiting.check()

    def _take_in(self, keys: Int64Array, pages: Int64Array, ids: Int64Array) -> None:
        self._waiting.append(keys, ids)

    def _step(self) -> Step:
        key, id_ = self._waiting.oldest(1)
        self._found = None
        found = self._found = self._relation.lookup(key, id_)
        self._waiting.drop_oldest(1)
        return self._settled_by_lookup(found, key, id_)

    def _give_up(self, count: int) -> Int64Array:
        """All tuples cost the same; the oldest go."""
        _, ids = self._waiting.oldest(count)
        self._waiting.drop_oldest(count)
        return ids
