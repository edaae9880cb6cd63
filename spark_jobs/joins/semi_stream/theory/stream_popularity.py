"""How popular the tuples of R are in the stream, by keys and by pages: Zipf's law, or as counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.semi_stream.theory.popularity import PagePopularity, zipf_page_popularity
from spark_jobs.joins.semi_stream.theory.zipf_ranks import FloatArray, share_of_first


class StreamPopularity(Protocol):
    """What the models need to know of a stream."""

    def share_of_hottest(self, keys: float) -> float:
        """Part of the stream that asks for the most frequent so many keys; whole or not."""

    def keys(self) -> PagePopularity:
        """The popularity of single keys."""

    def pages(self, page_rows: float, without_hottest: float) -> PagePopularity:
        """The popularity of pages of so many tuples, where the most frequent so many keys are not asked for."""


@dataclass(frozen=True)
class ZipfStream:
    """A stream whose keys follow Zipf's law.

    Attributes:
        row_count: tuples of R, all of which may be asked for.
        exponent: 0 is uniform, 1 the papers'.
        shuffled: whether R lies in random order of popularity; otherwise the most frequent key lies first.
    """

    row_count: int
    exponent: float
    shuffled: bool

    def share_of_hottest(self, keys: float) -> float:
        """Part of the stream that asks for the most frequent so many keys. O(1)."""
        return float(share_of_first(min(keys, self.row_count), self.row_count, self.exponent))

    def keys(self) -> PagePopularity:
        """The popularity of single keys."""
        return zipf_page_popularity(self.row_count, self.exponent, 1, shuffled=False)

    def pages(self, page_rows: float, without_hottest: float) -> PagePopularity:
        """The popularity of pages, without that of the most frequent keys."""
        return zipf_page_popularity(
            self.row_count, self.exponent, page_rows, shuffled=self.shuffled, cached_slots=without_hottest
        )


class CountedStream:
    """A stream whose keys are as popular as given: counted, or known.

    Args:
        weights: shape (n,), how often the stream asks for each key of R, in key order, to any scale.
    """

    def __init__(self, weights: NDArray[np.floating] | NDArray[np.integer]) -> None:
        self._weights: FloatArray = np.asarray(weights, np.float64) / np.sum(weights)
        self._hottest_first = np.argsort(-self._weights, kind="stable")
        self._shares = np.concatenate([[0.0], np.cumsum(self._weights[self._hottest_first])])

    def share_of_hottest(self, keys: float) -> float:
        """Part of the stream that asks for the most frequent so many keys. O(log n)."""
        return float(np.interp(keys, np.arange(len(self._shares)), self._shares))

    def keys(self) -> PagePopularity:
        """The popularity of single keys. O(n log n)."""
        return PagePopularity.of(self._weights)

    def pages(self, page_rows: float, without_hottest: float) -> PagePopularity:
        """The popularity of pages, without that of the most frequent keys. O(n)."""
        weights = self._weights.copy()
        weights[self._hottest_first[: int(without_hottest)]] = 0
        page_of = (np.arange(len(weights)) / page_rows).astype(np.int64)
        return PagePopularity.of(np.bincount(page_of, weights))
