"""Semi-streamed index join: a cache of whole pages of R, and the page that most tuples wait for is read next."""

from __future__ import annotations

import numpy as np

from spark_jobs.joins.memory_budget import PAGE_INDEX_SHARE, tuples_within
from spark_jobs.joins.semi_stream.base import NO_TUPLES, Int64Array, Matches, Page, QueuedJoin, Relation, Step
from spark_jobs.joins.semi_stream.page_cache import PageCache
from spark_jobs.joins.structures.page_probe import PageProbe
from spark_jobs.joins.structures.stream_tuples import StreamTuples

# The best on virtual disks, memory 1 % to 10 % of R, be R sorted by rank or shuffled: more pages in memory leave
# too little for the tuples that share a load.
_CACHE_SHARE = 0.15
_INPUT_SHARE = 1 / 16
# One load in so many is for the oldest tuple, so that no rare key waits for ever.
_LOADS_PER_OLDEST = 16
# The use of a page counts half after so many times the tuples in memory have come: by then every page that
# is worth a place in the cache has been waited for several times.
_HALF_LIFE = 8


class SemiStreamedIndexJoin(QueuedJoin[StreamTuples]):
    """SSIJ (Bornea, Deligiannakis, Kotidis, Vassalos: Semi-Streamed Index Join, ICDE 2011; 003 §2).

        stream ---> [ input buffer ] ---> [ cached pages ] ---> joined            online phase
                                                | not there
                                                v
                                          [ stream buffer ] ---> joined           join phase
                                                ^
                   the page most wait for, by index; it stays in the cache
                   if it is more useful than the least useful page there

    Pending phase: tuples wait in the input buffer until there are as many as a threshold. Online phase:
    those whose page is in the cache are joined, a page a step. Join phase: while the stream buffer holds more
    than a threshold, the page that most tuples wait for is read. A utility counter for each page of R,
    which ages, decides what stays in the cache.

    Neither paper gives the thresholds, nor how memory is split: here they are arguments. Where it departs:
    input and stream buffer are one memory, because a tuple's page is known when it comes; one load in 16
    is for the oldest tuple; and a tuple whose key is not on a cached page waits until that page has
    been read again, for R may have grown.

    Args:
        relation: R.
        memory_bytes: one page and the index of its keys, 8 bytes a page of R; of the rest `cache_share`
            for whole pages, and 42 to 44 bytes for each waiting tuple.
        cache_share: between 0 and 1.
        input_share: the threshold of the input buffer, as a part of all waiting tuples; the stream buffer's
            is the rest. Between 0 and 1.
        blocking: whether a step waits while both are below their thresholds. If not, it joins with a cached
            page if it can, and reads one otherwise. `finish` never waits.

    Attributes:
        capacity: stream tuples that may wait.

    Raises:
        ValueError: a share is out of range.
        MemoryBudgetError: the budget does not hold a page and one stream tuple.
    """

    def __init__(
        self,
        relation: Relation,
        memory_bytes: int,
        *,
        cache_share: float = _CACHE_SHARE,
        input_share: float = _INPUT_SHARE,
        blocking: bool = True,
    ) -> None:
        super().__init__()
        for name, share in (("cache_share", cache_share), ("input_share", input_share)):
            if not 0 <= share <= 1:
                raise ValueError(f"{name} is {share}, but a share is from 0 to 1")
        self.blocking = blocking
        self._relation = relation
        index_bytes = relation.page_bytes // PAGE_INDEX_SHARE
        page_count = max(1, relation.page_count)
        fixed_bytes = relation.page_bytes + PageProbe.bytes_for(index_bytes) + PageCache.bytes_for(page_count, 0, 0)
        left = max(0, memory_bytes - fixed_bytes - StreamTuples.bytes_for(1))
        cached_pages = min(page_count, int(left * cache_share) // PageCache.bytes_for(0, 1, relation.page_bytes))
        self.capacity = tuples_within(
            memory_bytes,
            fixed_bytes + PageCache.bytes_for(0, cached_pages, relation.page_bytes),
            StreamTuples.bytes_for,
            algorithm="semi_streamed_index_join",
            fixed=f"a page of R ({relation.page_bytes:,} bytes), counters of {page_count:,} pages",
        )
        self._input_threshold = max(1, int(input_share * self.capacity))
        self._waiting = StreamTuples(self.capacity)
        self._cache = PageCache(page_count, cached_pages)
        self._probe = PageProbe(index_bytes)
        self._disk_buffer: Page | None = None
        self._online = False
        self._input = 0  # tuples that came since the last online phase began
        self._without_load = 0  # steps
        self._since_ageing = 0  # tuples
        self.statistics.extra["page_cache_hits"] = 0

    @property
    def reads_next(self) -> bool:
        """Whether the next step reads a page, and neither waits nor joins with one from the cache."""
        page = self._next_page() if self.pending else None
        return page is not None and self._slot_to_join(page) is None

    def memory_used(self) -> int:
        """Bytes of stream tuples, cache with its counters, index of a page, and of the page in the disk buffer."""
        page = self._disk_buffer.size if self._disk_buffer else 0
        return self._waiting.memory_used() + self._cache.memory_used() + self._probe.memory_used() + page

    def check(self) -> None:
        """Assert the invariants of tuples and cache, and that its counters fit the tuples. O(capacity)."""
        self._waiting.check()
        places = [self._waiting.oldest]
        while places[-1]:
            places.append(self._waiting.newer_than(places[-1]))
        self._cache.check(self._waiting.tuples["page"][places[:-1]])

    def _take_in(self, keys: Int64Array, pages: Int64Array, ids: Int64Array) -> None:
        self._waiting.append(keys, pages, ids)
        self._cache.wait(pages)
        self._input += len(keys)
        self._since_ageing += len(keys)
        if self._since_ageing >= _HALF_LIFE * self.capacity:
            self._since_ageing = 0
            self._cache.age()

    def _step(self) -> Step:
        page = self._next_page()
        if self._is_online():
            self._input = 0  # What is not in the cache is in the stream buffer from now on.
        slot = None if page is None else self._slot_to_join(page)
        self._online = slot is not None
        if slot is not None:
            self._without_load += 1
            return self._join_with_cached(slot)
        self._without_load = 0
        if page is None:
            return Step(None, NO_TUPLES)
        return self._join_with_read(page if page >= 0 else ~page)

    def _may_wait(self) -> bool:
        return self.blocking and not self._finishing

    def _has_to_read(self) -> bool:
        """Whether the stream buffer holds more than its threshold."""
        return len(self._waiting) > self.capacity - self._input_threshold

    def _is_online(self) -> bool:
        """Whether tuples are looked up in the cache: an online phase goes on until no more are found there."""
        idle = not self._has_to_read() and not self._may_wait()
        return self._online or self._input >= self._input_threshold or idle

    def _next_page(self) -> int | None:
        """The page of the next step; the complement of a cached one that is read again; None to wait."""
        if self._is_online() and self._without_load < len(self._cache):
            cached = self._cache.most_waited_for()
            if cached is not None:
                return cached
        if self._may_wait() and not self._has_to_read():
            return None
        oldest_has_its_turn = self.statistics.pages_read % _LOADS_PER_OLDEST == _LOADS_PER_OLDEST - 1
        outside = None if oldest_has_its_turn else self._cache.most_waited_for_outside()
        return self._waiting.page_of(self._waiting.oldest) if outside is None else outside

    def _slot_to_join(self, page: int) -> int | None:
        return self._cache.slot_of(page) if page >= 0 else None

    def _join_with_cached(self, slot: int) -> Step:
        number, page = int(self._cache.numbers[slot]), self._cache.page(slot)
        keys, ids = self._waiting.take_page(number)
        found, rows, missed = self._probe.join(keys, np.arange(len(keys)), page.keys)
        self._cache.settle(number, len(found))
        if missed.size:
            self._waiting.append(keys[missed], np.full(len(missed), ~number), ids[missed])
            self._cache.doubt(slot, len(missed))
        self.statistics.probes += len(keys)
        self.statistics.extra["page_cache_hits"] += len(found)
        return Step(Matches(ids[found], rows, page), NO_TUPLES)

    def _join_with_read(self, number: int) -> Step:
        self._disk_buffer = None  # The new page takes the old one's memory.
        page = self._disk_buffer = self._relation.read_page(number)
        self.statistics.pages_read += 1
        self.statistics.bytes_read += page.size
        self.statistics.probes += len(page.keys)
        keys, ids = (
            np.concatenate(both)
            for both in zip(self._waiting.take_page(number), self._waiting.take_page(~number), strict=True)
        )
        self._cache.settle(number, len(ids))
        if self._cache.keep(number, page):
            self._disk_buffer = None
        ids, rows, unmatched = self._probe.join(keys, ids, page.keys)
        return Step(Matches(ids, rows, page), unmatched)

    def _give_up(self, count: int) -> Int64Array:
        """Shed the oldest: the pages that many wait for have been read since they came."""
        pages, ids = self._waiting.take_oldest(count)
        self._cache.forget(pages)
        return ids
