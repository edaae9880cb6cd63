"""Streams of keys: each is drawn with a probability of its own, the same all the time or for an interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.workload.zipf import ZipfDistribution

Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]


class ZipfStream:
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
