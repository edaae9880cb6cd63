"""The page index: the first key of every page of R, which makes pages of a table that has none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_jobs.relation.byte_search import count_not_above
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.page_ranges import PageRanges


@dataclass(frozen=True, eq=False)
class PageIndex:
    """Cuts R, in key order, into pages that had `page_rows` tuples each when the index was built.

    Whatever R becomes, every key belongs to exactly one page: page n runs from fence n - 1 to below fence n, the
    first and the last page are open. So a page grows and shrinks with R; `page_cutting` says when to cut R anew.
    Immutable; pickles by its arrays, for a broadcast.

    Attributes:
        fences: first keys of pages 1 and up, shape (page_count - 1,).
        page_rows: tuples of a page at the time of building.
    """

    fences: KeyColumns
    page_rows: int

    @property
    def page_count(self) -> int:
        """Pages of R; at least one."""
        return len(self.fences) + 1

    @property
    def nbytes(self) -> int:
        """Memory of the fences, in bytes."""
        return self.fences.nbytes

    def page_of(self, keys: KeyColumns) -> NDArray[np.int64]:
        """The page on which each key is, or would be. O(n log pages).

        Args:
            keys: shape (n,).

        Returns:
            int64, shape (n,). For an invalid key it is some page.
        """
        if self.fences.encoded is None or keys.encoded is None:
            return np.searchsorted(self.fences.codes, keys.codes, side="right").astype(np.int64)
        return count_not_above(self.fences.encoded, keys.encoded)

    def with_page_rows(self, page_rows: int) -> PageIndex:
        """An index of larger pages, out of every so-manyth fence of this one. O(pages).

        Raises:
            ValueError: the size is no multiple of this index's.
        """
        joined, rest = divmod(page_rows, self.page_rows)
        if rest or joined < 1:
            raise ValueError(
                f"pages of {page_rows} tuples can't be made of pages of {self.page_rows}: choose a multiple"
            )
        return PageIndex(self.fences.take(np.arange(joined - 1, len(self.fences), joined)), page_rows)

    def ranges(self, parts: int, weights: NDArray[np.float64] | None = None) -> PageRanges:
        """Cut the pages into contiguous ranges of about equal page counts, or weights, shape (page_count,)."""
        return PageRanges.balanced(self.page_count, parts, weights)
