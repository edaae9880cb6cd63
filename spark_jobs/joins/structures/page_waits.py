"""How long the stream tuples that wait for each page of R have waited in all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.jit import kernel, read_only

Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]

_BYTES = 12


class PageWaits:
    """For each page the number of tuples that wait for it, and when the first of them came.

    Time is counted in stream tuples that came. The tuples of a page are taken to have come at even
    intervals, so that all of them have waited half as long as if they had come with the first.

    Args:
        page_count: pages of R. Of those that R gets later only the number of all tuples is known.

    Attributes:
        untold: tuples that wait for pages beyond `page_count`.
    """

    def __init__(self, page_count: int) -> None:
        self._counts: Int32Array = np.zeros(page_count, np.int32)
        self._first_came: Int64Array = np.zeros(page_count, np.int64)
        self._now = 0
        self.untold = 0

    @staticmethod
    def bytes_for(page_count: int) -> int:
        """Memory for so many pages, in bytes."""
        return _BYTES * page_count

    def arrived(self, pages: Int64Array) -> None:
        """Tuples came, for each the page it waits for; int64, shape (n,). O(n)."""
        self.untold += _arrived(self._counts, self._first_came, self._now, read_only(pages))
        self._now += len(pages)

    def settled(self, page: int, count: int) -> None:
        """A page was read, and so many tuples left that waited for it. O(1)."""
        if page >= len(self._counts):
            self.untold -= count
            return
        self._counts[page] -= count
        self._first_came[page] = self._now

    def given_up(self, pages: Int64Array) -> None:
        """The first to come of each page's tuples left; int64, shape (n,), a page for each that did. O(n)."""
        self.untold -= _given_up(self._counts, self._first_came, self._now, read_only(pages))

    def longest(self, pages: Int64Array) -> int:
        """The position of the page whose tuples have waited longest in all. O(n).

        Args:
            pages: int64, shape (n,), n at least 1.

        Returns:
            A position in `pages`; -1 if no tuple waits for any of them, as far as is told.
        """
        return int(_longest(self._counts, self._first_came, self._now, read_only(pages)))

    def memory_used(self) -> int:
        """Bytes of its arrays."""
        return self._counts.nbytes + self._first_came.nbytes


@kernel
def _arrived(counts: Int32Array, first_came: Int64Array, now: int, pages: Int64Array) -> int:
    untold = 0
    for i in range(len(pages)):
        page = pages[i]
        if page >= len(counts):
            untold += 1
            continue
        if counts[page] == 0:
            first_came[page] = now + i
        counts[page] += 1
    return untold


@kernel
def _given_up(counts: Int32Array, first_came: Int64Array, now: int, pages: Int64Array) -> int:
    untold = 0
    for i in range(len(pages)):
        page = pages[i]
        if page >= len(counts):
            untold += 1
            continue
        first_came[page] += (now - first_came[page]) // counts[page]
        counts[page] -= 1
    return untold


@kernel
def _longest(counts: Int32Array, first_came: Int64Array, now: int, pages: Int64Array) -> int:
    longest, position = 0.0, -1
    for i in range(len(pages)):
        page = pages[i]
        if page >= len(counts):
            continue
        wait = np.float64(counts[page]) * (now - first_came[page] + 1)
        if wait > longest:
            longest, position = wait, i
    return position
