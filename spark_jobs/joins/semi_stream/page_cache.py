"""A page-level cache: the pages of R that are most useful stay in memory, and all are counted by who waits for them."""

from __future__ import annotations

import numpy as np

from spark_jobs.joins.semi_stream.base import Int64Array, Page
from spark_jobs.joins.structures.page_counters import PageCounters

_SLOT_BYTES = 16


class PageCache:
    """Pages of R in slots, and counters of all pages.

    A page in memory may be older than R: a stream tuple that does not find its key there doubts it, and
    waits until the page is read again. Whoever waits for a page to be read has the complement of its
    number as its page, if it doubts one in the cache.

    Args:
        page_count: pages of R; those that come to R later are neither counted nor kept.
        capacity: pages that are kept.
    """

    def __init__(self, page_count: int, capacity: int) -> None:
        self.capacity = capacity
        self._counters = PageCounters(page_count)
        self._numbers: Int64Array = np.zeros(capacity, np.int64)
        self._doubts: Int64Array = np.zeros(capacity, np.int64)  # tuples that doubt the page in each slot
        self._pages: list[Page] = []

    @staticmethod
    def bytes_for(page_count: int, capacity: int, page_bytes: int) -> int:
        """Memory of a cache that is full, in bytes."""
        return PageCounters.bytes_for(page_count) + capacity * (page_bytes + _SLOT_BYTES)

    def __len__(self) -> int:
        return len(self._pages)

    @property
    def numbers(self) -> Int64Array:
        """Numbers of the pages in the cache, int64, shape (length,), in the order of their slots."""
        return self._numbers[: len(self._pages)]

    def slot_of(self, number: int) -> int | None:
        """The slot of a page, None if it is not in the cache. O(length), 1 ns a page or less."""
        found = np.flatnonzero(self.numbers == number)
        return int(found[0]) if found.size else None

    def page(self, slot: int) -> Page:
        """The page in a slot."""
        return self._pages[slot]

    def wait(self, pages: Int64Array) -> None:
        """Count stream tuples that come, by their pages, int64, shape (n,). O(n)."""
        self._counters.wait(pages)

    def forget(self, pages: Int64Array) -> None:
        """Count stream tuples no longer that were shed, by their pages or their complements. O(n log n)."""
        self._counters.wait(pages[pages >= 0], -1)
        for number, doubting in zip(*np.unique(~pages[pages < 0], return_counts=True), strict=True):
            slot = self.slot_of(number)
            if slot is None:
                self._counters.wait(number[np.newaxis], -doubting)
            else:
                self._doubts[slot] -= doubting

    def settle(self, number: int, tuples: int) -> None:
        """The page was joined with all that waited for it, and was of use to so many of them."""
        self._counters.settle(number, tuples)

    def doubt(self, slot: int, tuples: int) -> None:
        """So many tuples did not find their key on the page in a slot."""
        self._doubts[slot] += tuples

    def most_waited_for(self) -> int | None:
        """The page in the cache that most tuples wait for, None if none does. O(length)."""
        waiting = self._counters.waiting[self.numbers]
        return int(self.numbers[waiting.argmax()]) if waiting.any() else None

    def most_waited_for_outside(self) -> int | None:
        """The page to be read that most tuples wait for, the complement of one that they doubt. O(page_count)."""
        number, waiting = self._counters.most_waited_for(besides=self.numbers)
        if len(self) and self._doubts.max() > waiting:
            return ~int(self._numbers[self._doubts.argmax()])
        return number if waiting else None

    def keep(self, number: int, page: Page) -> bool:
        """Put a page, just read, into the cache if it is more useful than the least useful there. O(length).

        Returns:
            Whether it is in the cache now.
        """
        if not self.capacity or not self._counters.counts(number):
            return False
        slot = self.slot_of(number)
        if slot is None and len(self) == self.capacity:
            slot = int(self._counters.utility[self.numbers].argmin())
            evicted = int(self._numbers[slot])
            if self._counters.utility[number] <= self._counters.utility[evicted]:
                return False
            self._counters.waiting[evicted] += self._doubts[slot]
        if slot is None:
            slot = len(self)
            self._pages.append(page)
        self._pages[slot], self._numbers[slot], self._doubts[slot] = page, number, 0
        return True

    def age(self) -> None:
        """Let all use so far count half. O(page_count)."""
        self._counters.age()

    def memory_used(self) -> int:
        """Bytes of its arrays and its pages."""
        arrays = self._counters.memory_used() + self._numbers.nbytes + self._doubts.nbytes
        return arrays + sum(page.size for page in self._pages)

    def check(self, pages: Int64Array) -> None:
        """Assert that no page is in two slots, and that the tuples that wait are counted, by their pages."""
        self._counters.check()
        assert len(self) <= self.capacity
        assert len(np.unique(self.numbers)) == len(self)
        count = len(self._counters.waiting)
        expected = np.bincount(pages[(pages >= 0) & (pages < count)], minlength=count)
        doubting = np.bincount(~pages[(pages < 0) & (~pages < count)], minlength=count)
        assert np.array_equal(self._doubts[: len(self)], doubting[self.numbers])
        assert not self._doubts[len(self) :].any()
        doubting[self.numbers] = 0
        assert np.array_equal(self._counters.waiting, expected + doubting)
