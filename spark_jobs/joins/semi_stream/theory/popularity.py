"""How popular R's tuples and pages are in the stream, by Zipf's law or as counted: all that page loads depend on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Pages whose probabilities differ by less than this part are counted as one class.
_CLASS_WIDTH = 0.002
# Pages of a sorted R that are told apart one by one; after them classes of neighbours widen with the rank.
_PAGES_APART = 4096
# Keys of a shuffled R that are placed one by one; the others are so rare that each page gets its share of them.
_KEYS_PLACED = 1 << 18
_PLACES_SEED = 5


def share_of_first(ranks: FloatArray | float, row_count: int, exponent: float) -> FloatArray:
    """Part of the stream that asks for the tuples of rank 1 to `ranks`. O(1) each.

    The density x^-exponent on 1 to row_count + 1, integrated from each rank to the next, as GETDISTRIBUTIONVALUE
    of 000 Fig. 7 draws. It is continuous in `ranks`, so that it can be told for any part of R.

    Args:
        ranks: from 0 to row_count; whole or not.
        row_count: tuples of R, R_t.
        exponent: 0 is uniform, 1 the papers'.
    """
    flatness = 1.0 - exponent
    position, end = np.log1p(np.asarray(ranks, np.float64)), np.log1p(float(row_count))
    if flatness == 0:
        return position / end
    share: FloatArray = np.expm1(flatness * position) / np.expm1(flatness * end)
    return share


@dataclass(frozen=True)
class PagePopularity:
    """Pages of R in classes of equal stream probability (003 §4.2: the probability that a stream tuple falls on it).

    Attributes:
        probabilities: float64, shape (c,), above 0: of one page of each class.
        page_counts: float64, shape (c,): pages in each class; `probabilities @ page_counts` is 1.
    """

    probabilities: FloatArray
    page_counts: FloatArray

    @classmethod
    def of(cls, weights: NDArray[np.floating] | NDArray[np.integer]) -> PagePopularity:
        """Put pages into classes. O(n log n).

        Args:
            weights: shape (n,), how often the stream asks for each page, to any scale; pages of weight 0 are left
                out, for no algorithm that reads by index ever loads them.
        """
        asked = np.asarray(weights, np.float64)
        asked = asked[asked > 0] / asked.sum()
        _, class_of, counts = np.unique(np.round(np.log(asked) / _CLASS_WIDTH), return_inverse=True, return_counts=True)
        return cls(np.bincount(class_of, asked) / counts, counts.astype(np.float64))

    def sum(self, of_pages: FloatArray) -> float:
        """Add up something that is given for one page of each class, shape (c,)."""
        return float(of_pages @ self.page_counts)

    def mean(self, of_pages: FloatArray) -> float:
        """What a stream tuple finds on average, of something that is given for one page of each class, shape (c,)."""
        return float(of_pages @ (self.page_counts * self.probabilities))

    def without_hottest(self, pages: float) -> tuple[float, PagePopularity]:
        """Take out this many of the most popular pages.

        Returns:
            Their part of the stream, below 1, and the popularity of the other pages among the rest of it.
        """
        hottest_first = np.argsort(-self.probabilities, kind="stable")
        counts = self.page_counts[hottest_first]
        taken = np.clip(pages - (np.cumsum(counts) - counts), 0, counts)
        left = counts - taken
        others = self.probabilities[hottest_first][left > 0], left[left > 0]
        share = float(taken @ self.probabilities[hottest_first])
        return share, PagePopularity(others[0] / (others[0] @ others[1]), others[1])


def zipf_page_popularity(
    row_count: int, exponent: float, page_rows: float, *, shuffled: bool, cached_slots: float = 0
) -> PagePopularity:
    """Page popularity of a Zipf distribution; what a front stage leaves of it.

    Time and memory depend little on the size of R: about a millisecond, three where it is shuffled.

    Args:
        row_count: tuples of R, R_t.
        exponent: Zipf's; 0 is uniform.
        page_rows: tuples of a page, D_t; whole or not, so that its best size can be found by calculus.
        shuffled: whether the tuples lie in random order of popularity; otherwise rank 1 lies first, as in 000 §5.
        cached_slots: how many of the most frequent tuples are in the front stage; the rest makes the popularity.
    """
    if shuffled:
        return PagePopularity.of(_shuffled(row_count, exponent, page_rows, cached_slots))
    page_count = np.ceil(row_count / page_rows)
    first = np.floor(cached_slots / page_rows)
    apart = first + np.arange(min(_PAGES_APART, page_count - first))
    wider = np.geomspace(apart[-1] + 1, page_count, 2 + int(np.log(page_count / (apart[-1] + 1)) / _CLASS_WIDTH))
    borders = np.unique(np.concatenate([apart, np.round(wider)]))
    ranks = np.clip(borders * page_rows, cached_slots, row_count)
    shares = np.diff(share_of_first(ranks, row_count, exponent))
    pages = np.diff(borders)
    asked = shares > 0
    shares, pages = shares[asked], pages[asked]
    return PagePopularity(shares / pages / shares.sum(), pages)


def _shuffled(row_count: int, exponent: float, page_rows: float, cached_slots: float) -> FloatArray:
    """Place the most frequent keys at random, the same way for every size of page; deal out the rest evenly."""
    page_count = int(np.ceil(row_count / page_rows))
    placed = int(min(_KEYS_PLACED, row_count - cached_slots))
    drawn = np.random.default_rng(_PLACES_SEED).random(placed)
    rows = np.argsort(drawn) if placed == row_count else drawn * row_count
    pages = np.minimum((rows / page_rows).astype(np.int64), page_count - 1)
    ranks: FloatArray = cached_slots + np.arange(placed + 1, dtype=np.float64)
    shares = share_of_first(ranks, row_count, exponent)
    popular = np.bincount(pages, np.diff(shares), page_count)
    others = np.maximum(page_rows - np.bincount(pages, minlength=page_count), 0)
    total = others.sum()
    weights: FloatArray = popular + others * ((1 - shares[-1]) / total if total else 0)
    return weights


class StreamPopularity(Protocol):
    """What the models need to know of a stream."""

    def share_of_hottest(self, keys: float) -> float:
        """Part of the stream that asks for this many of the most frequent keys, a whole number or not."""

    def keys(self) -> PagePopularity:
        """The popularity of single keys."""

    def pages(self, page_rows: float, without_hottest: float) -> PagePopularity:
        """The popularity of pages of `page_rows` tuples, where the hottest keys are not asked for."""


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
        """Part of the stream that asks for this many of the most frequent keys. O(1)."""
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
        """Part of the stream that asks for this many of the most frequent keys. O(log n)."""
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
