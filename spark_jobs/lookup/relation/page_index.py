"""The page index: the first key of every page of R. It makes pages of a table that has none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import binary_parts
from spark_jobs.columns.jit import kernel
from spark_jobs.columns.keys.key_columns import KeyColumns


@dataclass(frozen=True, eq=False)
class PageIndex:
    """Cuts R, in key order, into pages that had `page_rows` tuples each when the index was built.

    Whatever R becomes, every key belongs to exactly one page: page n runs from fence n - 1 to below fence n, the
    first and the last page are open. So a page grows and shrinks with R; `outgrown` says when to cut R anew.
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
        """An index of larger pages, made of every n-th fence of this one. O(pages).

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


@dataclass(frozen=True, eq=False)
class PageRanges:
    """Pages cut into parts.

    Attributes:
        boundaries: int64, shape (parts + 1,), ascending: part i owns the pages from boundaries[i] to below
            boundaries[i + 1], which may be none.
    """

    boundaries: NDArray[np.int64]

    @property
    def parts(self) -> int:
        """Number of ranges, those without pages included."""
        return len(self.boundaries) - 1

    @classmethod
    def balanced(cls, pages: int, parts: int, weights: NDArray[np.float64] | None = None) -> PageRanges:
        """Ranges of about the same number of pages, or of about the same sum of weights.

        Args:
            pages: number of pages.
            parts: number of ranges.
            weights: shape (pages,), at least 0: the work that each page makes; None: all make the same.
        """
        shares = np.arange(1, parts) / parts
        if weights is None or not weights.sum():
            cuts = np.round(shares * pages).astype(np.int64)
        else:
            # A page whose middle lies before the cut belongs before it: the nearest border of pages is taken.
            middles = np.cumsum(weights) - weights / 2
            cuts = np.searchsorted(middles, shares * weights.sum())
        return cls(np.concatenate([[0], cuts, [pages]]).astype(np.int64))

    def owner_of(self, pages: NDArray[np.int64]) -> NDArray[np.int32]:
        """The part that owns each page; int32, the shape of `pages`. O(n log parts)."""
        return (np.searchsorted(self.boundaries, pages, side="right") - 1).astype(np.int32)


def count_not_above(ordered: pa.BinaryArray, values: pa.BinaryArray) -> NDArray[np.int64]:
    """How many of the ordered strings are at most each value; what np.searchsorted finds on the right side.

    Args:
        ordered: shape (m,), ascending by bytes.
        values: shape (n,).

    Returns:
        int64, shape (n,). O(n log m) comparisons.
    """
    counts = np.empty(len(values), np.int64)
    _search(*binary_parts(ordered), *binary_parts(values), counts)
    return counts


@kernel
def _search(
    ordered_offsets: NDArray[np.int32],
    ordered: NDArray[np.uint8],
    offsets: NDArray[np.int32],
    values: NDArray[np.uint8],
    counts: NDArray[np.int64],
) -> None:
    for row in range(len(counts)):
        start = offsets[row]
        length = offsets[row + 1] - start
        low, high = 0, len(ordered_offsets) - 1
        # What a value has in common with both bounds it has in common with all strings between them.
        common_with_low, common_with_high = 0, 0
        while low < high:
            middle = (low + high) // 2
            other_start = ordered_offsets[middle]
            other_length = ordered_offsets[middle + 1] - other_start
            shorter = min(length, other_length)
            common = min(common_with_low, common_with_high)
            while common < shorter and values[start + common] == ordered[other_start + common]:
                common += 1
            if common < shorter:
                is_below = values[start + common] < ordered[other_start + common]
            else:
                is_below = length < other_length
            if is_below:
                high, common_with_high = middle, common
            else:
                low, common_with_low = middle + 1, common
        counts[row] = low
