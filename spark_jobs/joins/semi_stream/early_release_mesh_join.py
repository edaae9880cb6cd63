"""MESHJOIN with early release: a joined tuple makes room at once, and the next takes part from the next page on."""

from __future__ import annotations

from spark_jobs.joins.memory_budget import tuples_within
from spark_jobs.joins.semi_stream.base import Int64Array, Matches, QueuedJoin, Relation, Step
from spark_jobs.joins.semi_stream.cyclic_scan import CyclicScan
from spark_jobs.joins.structures.keyed_tuples import KeyedTuples


class EarlyReleaseMeshJoin(QueuedJoin[KeyedTuples]):
    """MESHJOIN (000 §3) without its queue: nothing but tuples that are not joined yet take memory.

        stream ---> [ hash multimap ] ---> joined
                      ^           |
       keys of a page |           | not joined within a cycle
               [ disk buffer ]    v
                      ^        unmatched
          R: page 0, 1, ..., k - 1, 0, ...

    This is not in the papers. MESHJOIN keeps every tuple for a whole cycle of R, though the page with its
    key comes after half a cycle on average. Here its place is free as soon as it is joined: in the same
    memory w = 2 h_S / k, twice as many, for uniform keys. As tuples need not expire together, there
    are no chunks, and so no stream buffer and nothing to wait for.

    A tuple without a match is known as such after one to two cycles: a sweep through the multimap keeps
    pace with the scan of R, and the second time that it meets a tuple, this has seen all of R.

    Args:
        relation: R, in any order: the pages given to `push` are not used.
        memory_bytes: split into one page, and 25 bytes a tuple.

    Attributes:
        capacity: stream tuples that the multimap takes.

    Raises:
        MemoryBudgetError: the budget does not hold a page and one stream tuple.
    """

    def __init__(self, relation: Relation, memory_bytes: int) -> None:
        super().__init__()
        self._scan = CyclicScan(relation, self.statistics)
        self.capacity = tuples_within(
            memory_bytes,
            relation.page_bytes,
            KeyedTuples.bytes_for,
            algorithm="early_release_mesh_join",
            fixed=f"a page of R ({relation.page_bytes:,} bytes)",
        )
        self._waiting = KeyedTuples(self.capacity)

    def memory_used(self) -> int:
        """Bytes of the multimap, and of the page in the disk buffer."""
        return self._waiting.memory_used() + self._scan.memory_used()

    def check(self) -> None:
        """Assert the invariants of the multimap. O(capacity)."""
        self._waiting.check()

    def _take_in(self, keys: Int64Array, pages: Int64Array, ids: Int64Array) -> None:
        self._waiting.append(keys, ids)

    def _step(self) -> Step:
        page = self._scan.read()
        ids, rows = self._waiting.take(page.keys)
        return Step(Matches(ids, rows, page), self._waiting.sweep(self._scan.share_read))

    def _give_up(self, count: int) -> Int64Array:
        """Shed any: without an index, nobody knows whose page is far."""
        return self._waiting.take_some(count)
