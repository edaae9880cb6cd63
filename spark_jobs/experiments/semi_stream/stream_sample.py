"""A sample of the stream, and what it tells of the popularity of R's tuples and of their order."""

from __future__ import annotations

import numpy as np

from spark_jobs.joins.semi_stream.base import Int64Array
from spark_jobs.joins.semi_stream.theory.popularity import ZipfStream
from spark_jobs.joins.semi_stream.theory.skew_estimate import estimate_exponent

_TUPLE_BYTES = 16


class StreamSample:
    """Every n-th stream tuple, until it is full.

    Args:
        capacity: stream tuples that it takes.

    Attributes:
        tuples: int64, shape (2, capacity): keys, and the pages that they fall on.
    """

    def __init__(self, capacity: int) -> None:
        self.tuples: Int64Array = np.zeros((2, capacity), np.int64)
        self.start(1)

    @staticmethod
    def bytes_for(capacity: int) -> int:
        """Memory of a sample of this capacity, in bytes."""
        return capacity * _TUPLE_BYTES

    @property
    def capacity(self) -> int:
        """Stream tuples that it takes."""
        return self.tuples.shape[1]

    @property
    def full(self) -> bool:
        """Whether it has taken as many."""
        return self._size == self.capacity

    def start(self, every: int) -> None:
        """Begin a new sample, of every n-th stream tuple from now on."""
        self._every = every
        self._size = 0
        self._skip = 0

    def observe(self, keys: Int64Array, pages: Int64Array) -> None:
        """Take its part of these stream tuples, int64, shape (n,). O(n / every)."""
        chosen = slice(self._skip, None, self._every)
        taken = min(len(keys[chosen]), self.capacity - self._size)
        until = self._size + taken
        self.tuples[0, self._size : until] = keys[chosen][:taken]
        self.tuples[1, self._size : until] = pages[chosen][:taken]
        self._size = until
        self._skip = (self._skip - len(keys)) % self._every

    def exponent(self, row_count: int) -> float:
        """The Zipf exponent that fits how often keys of an R of this size are in the sample. O(n log n)."""
        _, counts = np.unique(self.tuples[0, : self._size], return_counts=True)
        return estimate_exponent(counts, self._size, row_count)

    def shuffled(self, row_count: int, exponent: float, page_rows: float) -> bool:
        """Whether R seems to lie in random order of popularity, rather than sorted by it. O(n log n).

        Two stream tuples fall on the same page with probability sum p^2 over the pages. Where popular tuples lie
        together that is larger than where they are dispersed; the nearer one is taken, by the factor that is between.

        Args:
            row_count: tuples of R.
            exponent: Zipf's.
            page_rows: tuples of a page.
        """
        _, counts = np.unique(self.tuples[1, : self._size], return_counts=True)
        pairs = self._size * (self._size - 1)
        same = max(float((counts * (counts - 1.0)).sum()), 1.0) / max(pairs, 1)
        expected = []
        for shuffled in (True, False):
            pages = ZipfStream(row_count, exponent, shuffled).pages(page_rows, 0)
            expected.append(pages.mean(pages.probabilities))
        return same * same <= expected[0] * expected[1]

    def memory_used(self) -> int:
        """Bytes of its array."""
        return self.tuples.nbytes
