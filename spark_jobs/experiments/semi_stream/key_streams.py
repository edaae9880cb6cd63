"""Streams of keys, each drawn with a probability of its own, in large blocks; and how popular moving keys are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_jobs.experiments.numbered_relation import NumberedRelation
from spark_jobs.joins.semi_stream.theory.popularity import PagePopularity, StreamPopularity
from spark_jobs.workload.zipf import ZipfDistribution

Int64Array = NDArray[np.int64]

Stream = Callable[[int], Int64Array]
"""Draws the join keys of the next n stream tuples."""

_BLOCK = 1 << 16

Int32Array = NDArray[np.int32]


class StreamBlocks:
    """Takes the cost of a draw off the single step of a join.

    Args:
        stream: draws keys.
        relation: knows their pages.
    """

    def __init__(self, stream: Stream, relation: NumberedRelation) -> None:
        self._relation = relation
        self.draw_from(stream)

    def draw_from(self, stream: Stream) -> None:
        """Go on with another stream, and forget what was drawn of the former one and not yet taken."""
        self._stream = stream
        self._keys: Int64Array = np.empty(0, np.int64)
        self._pages: Int64Array = np.empty(0, np.int64)
        self._taken = 0

    def take(self, count: int) -> tuple[Int64Array, Int64Array]:
        """Keys and pages of the next stream tuples: at least one, at most `count`, which is at least 1."""
        if self._taken == len(self._keys):
            self._keys = self._stream(_BLOCK)
            self._pages = self._relation.pages_of(self._keys)
            self._taken = 0
        part = slice(self._taken, self._taken + count)
        keys, pages = self._keys[part], self._pages[part]
        self._taken += len(keys)
        return keys, pages


class ZipfKeyStream:
    """Keys with Zipf popularity: key = rank - 1, or a permutation of that.

    Args:
        distribution: of the ranks.
        key_of_rank: shape (size,), the key of each rank, most frequent first; None for rank - 1.
        seed: equal seeds give equal streams.
    """

    def __init__(self, distribution: ZipfDistribution, key_of_rank: Int32Array | None, seed: int) -> None:
        self._distribution = distribution
        self._key_of_rank = key_of_rank
        self._random = np.random.default_rng(seed)

    def __call__(self, count: int) -> Int64Array:
        """Draw the next keys, int64, shape (count,)."""
        places = self._distribution.ranks(self._random.random(count)) - 1
        return places if self._key_of_rank is None else self._key_of_rank[places].astype(np.int64)


class LocalStream:
    """Temporal locality (003 §5.2.1): the stream's interval I draws its keys from the I-th part of the domain only.

    Within a part, the keys have Zipf popularity of exponent 1, and a popularity order shuffled by the seed.

    Args:
        key_count: keys of R's domain; a multiple of `intervals` is best.
        intervals: parts of the domain, and of the stream; after the last one the first follows.
        interval_tuples: stream tuples of an interval.
        seed: equal seeds give equal streams.
    """

    def __init__(self, key_count: int, intervals: int, interval_tuples: int, seed: int) -> None:
        self._part_keys = key_count // intervals
        self._intervals = intervals
        self._interval_tuples = interval_tuples
        self._drawn = 0
        self._random = np.random.default_rng(seed)
        self._distribution = ZipfDistribution(self._part_keys, 1.0)
        self._key_of_rank = np.random.default_rng(seed + 1).permutation(self._part_keys)

    def __call__(self, count: int) -> Int64Array:
        """Draw the next keys, int64, shape (count,)."""
        interval = (self._drawn + np.arange(count)) // self._interval_tuples % self._intervals
        self._drawn += count
        places = self._distribution.ranks(self._random.random(count)) - 1
        return self._key_of_rank[places] + interval * self._part_keys


class OrderingCustomersStream:
    """Customers of TPC-H's orders as dbgen deals them: uniform, but those divisible by 3 leave theirs to the next one.

    So of three customers the first has two thirds of the orders, the second one third, the third none.

    Args:
        customer_count: TPC-H's customers, numbered from 1; R's key is that number less 1.
        seed: equal seeds give equal streams.
    """

    def __init__(self, customer_count: int, seed: int) -> None:
        self._customer_count = customer_count
        self._random = np.random.default_rng(seed)

    def __call__(self, count: int) -> Int64Array:
        """Draw the next keys, int64, shape (count,)."""
        customers = self._random.integers(1, self._customer_count + 1, count)
        customers += customers % 3 == 0
        # After the last customer there is none: dbgen steps back from there.
        customers[customers > self._customer_count] -= 2
        return customers - 1


@dataclass(frozen=True)
class LocalPopularity:
    """Temporal locality of 003 §5.2.1 over a whole period: every part of the domain is equally popular.

    Attributes:
        parts: of the domain.
        part: the popularity of keys in one.
    """

    parts: int
    part: StreamPopularity

    def share_of_hottest(self, keys: float) -> float:
        """Part of the stream that asks for this many of the most frequent keys."""
        return self.part.share_of_hottest(keys / self.parts)

    def keys(self) -> PagePopularity:
        """The popularity of single keys."""
        return self._in_all_parts(self.part.keys())

    def pages(self, page_rows: float, without_hottest: float) -> PagePopularity:
        """The popularity of pages, without that of the most frequent keys."""
        return self._in_all_parts(self.part.pages(page_rows, without_hottest / self.parts))

    def _in_all_parts(self, one: PagePopularity) -> PagePopularity:
        return PagePopularity(one.probabilities / self.parts, one.page_counts * self.parts)
