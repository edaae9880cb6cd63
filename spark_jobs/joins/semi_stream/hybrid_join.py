"""HYBRIDJOIN: one page of R, read for one stream tuple, is joined with all that wait for it."""

from __future__ import annotations

from spark_jobs.joins.memory_budget import PAGE_INDEX_SHARE, tuples_within
from spark_jobs.joins.semi_stream.base import Int64Array, Matches, Page, QueuedJoin, Relation, Step
from spark_jobs.joins.semi_stream.lookup_position import LookupPosition, OldestTuple
from spark_jobs.joins.structures.page_probe import PageProbe
from spark_jobs.joins.structures.stream_tuples import StreamTuples


class HybridJoin(QueuedJoin[StreamTuples]):
    """HYBRIDJOIN (000 §4): queue with random deletion, hash multimap, page by index.

        stream ---> [ hash multimap + queue ] ---> joined
                          |            ^
                 page of the oldest    | all keys of the page
                          v            |
                          R ---> [ disk buffer ]

    Symbols of the paper: M = memory_bytes, v_P = relation.page_bytes, H_t (h_S in 003) = capacity,
    D_t = keys on a page, w = tuples that one page settles.

    Where it departs from the pseudo-code (Fig. 5): the caller gives each stream tuple the page its key
    falls on, as the index would, and the multimap keeps the tuples of a page together. So they all
    leave when their page has been read: the matched as in lines 5 to 7, and the others are known to
    have no match at once, where 003 (Algorithm 1, line 8) asks the index for each of them.

    Args:
        relation: R.
        memory_bytes: M, split into one page, the index of its keys, and the tuples' memory.
        position: whose page is read next; for this join alone. The oldest's if left out.

    Raises:
        MemoryBudgetError: the budget does not hold a page and one stream tuple.
    """

    def __init__(self, relation: Relation, memory_bytes: int, position: LookupPosition | None = None) -> None:
        super().__init__()
        self._relation = relation
        self._position = position or OldestTuple()
        index_bytes = relation.page_bytes // PAGE_INDEX_SHARE
        page_memory = relation.page_bytes + PageProbe.bytes_for(index_bytes) + self._position.memory_used()
        fixed = f"a page of R ({relation.page_bytes:,} bytes)"
        ranked = self._position.ranked
        self.capacity = tuples_within(
            memory_bytes,
            page_memory,
            lambda count: StreamTuples.bytes_for(count, ranked=ranked),
            algorithm="hybrid_join",
            fixed=fixed,
        )
        self._waiting = StreamTuples(self.capacity, ranked=ranked)
        self._probe = PageProbe(index_bytes)
        self._disk_buffer: Page | None = None

    def memory_used(self) -> int:
        """Bytes of the stream tuples' arrays, of the page in the disk buffer, of the index of its keys, and of
        what the lookup position remembers.
        """
        page = self._disk_buffer.size if self._disk_buffer else 0
        return self._waiting.memory_used() + self._probe.memory_used() + self._position.memory_used() + page

    def check(self) -> None:
        """Assert the invariants of multimap and queue. O(capacity)."""
        self._waiting.check()

    def _take_in(self, keys: Int64Array, pages: Int64Array, ids: Int64Array) -> None:
        self._waiting.append(keys, pages, ids)
        self._position.arrived(pages)

    def _step(self) -> Step:
        number = self._position.choose(self._waiting)
        self._disk_buffer = None  # The new page takes the old one's memory.
        page = self._disk_buffer = self._relation.read_page(number)
        statistics = self.statistics
        statistics.pages_read += 1
        statistics.bytes_read += page.size
        statistics.probes += len(page.keys)
        keys, waiting = self._waiting.take_page(number)
        self._position.settled(number, len(waiting))
        ids, rows, unmatched = self._probe.join(keys, waiting, page.keys)
        return Step(Matches(ids, rows, page), unmatched)

    def _give_up(self, count: int) -> Int64Array:
        """Shed the oldest: they have survived the most page reads, so few others share theirs (003 §4.2)."""
        pages, ids = self._waiting.take_oldest(count)
        self._position.given_up(pages)
        return ids
