"""For each page of R: how many stream tuples wait for it, and how useful it was to have it in memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
Float32Array = NDArray[np.float32]

_PAGE_BYTES = 4 + 4


class PageCounters:
    """Two counters a page, 8 bytes together; pages that have come to R since are not counted.

    Args:
        page_count: pages of R when this is made.

    Attributes:
        waiting: int32, shape (page_count,), stream tuples that wait for each page.
        utility: float32, shape (page_count,), stream tuples that each page has settled, ageing.
    """

    def __init__(self, page_count: int) -> None:
        self.waiting: Int32Array = np.zeros(page_count, np.int32)
        self.utility: Float32Array = np.zeros(page_count, np.float32)

    @staticmethod
    def bytes_for(page_count: int) -> int:
        """Memory for that many pages, in bytes."""
        return page_count * _PAGE_BYTES

    def counts(self, page: int) -> bool:
        """Whether the page has counters."""
        return page < len(self.waiting)

    def wait(self, pages: Int64Array, tuples: int = 1) -> None:
        """Count so many tuples more, or fewer if negative, for each page; one may stand several times. O(n)."""
        np.add.at(self.waiting, pages[pages < len(self.waiting)], np.int32(tuples))

    def settle(self, page: int, tuples: int) -> None:
        """Nobody waits for this page any more, and it was of use to so many tuples. O(1)."""
        if self.counts(page):
            self.waiting[page] = 0
            self.utility[page] += tuples

    def most_waited_for(self, besides: Int64Array) -> tuple[int, int]:
        """The page with the most waiting tuples among all but some, and how many these are. O(page_count)."""
        kept = self.waiting[besides]
        self.waiting[besides] = 0
        page = int(self.waiting.argmax())
        waiting = int(self.waiting[page])
        self.waiting[besides] = kept
        return page, waiting

    def age(self) -> None:
        """Let all use so far count half. O(page_count)."""
        self.utility *= np.float32(0.5)

    def memory_used(self) -> int:
        """Bytes of its arrays."""
        return self.waiting.nbytes + self.utility.nbytes

    def check(self) -> None:
        """Assert that no counter is negative. O(page_count)."""
        assert (self.waiting >= 0).all()
        assert (self.utility >= 0).all()
