"""Contiguous ranges of pages, one for each part of an exchange."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
