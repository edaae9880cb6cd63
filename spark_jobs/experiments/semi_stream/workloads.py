"""What the papers join: a relation R by its size, and a stream by the popularity of R's keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Protocol

import numpy as np

from spark_jobs.experiments.semi_stream.key_streams import (
    Int32Array,
    LocalPopularity,
    LocalStream,
    OrderingCustomersStream,
    Stream,
    ZipfKeyStream,
)
from spark_jobs.joins.semi_stream.theory.popularity import CountedStream, StreamPopularity, ZipfStream
from spark_jobs.workload.zipf import ZipfDistribution

TUPLE_BYTES = 120
CUSTOMER_BYTES = 223
REPORT_BYTES = 128
LONGITUDES = 36_001
LOCAL_INTERVALS = 25


class StreamFactory(Protocol):
    """Begins a stream."""

    def __call__(self, *, seed: int) -> Stream:
        """A stream from its beginning; equal seeds give equal streams."""


@dataclass(frozen=True)
class Workload:
    """A relation and a stream.

    Attributes:
        name: for tables and captions.
        key_count: distinct keys of R, which are 0 to key_count - 1.
        tuple_bytes: of all tuples of R with one key.
        stream: begins a stream.
        popularity: computes how popular R's keys are, as the cost models want it; over a whole period.
        period: stream tuples after which the popularity of keys repeats; 1 where it does not change.
    """

    name: str
    key_count: int
    tuple_bytes: int
    stream: StreamFactory
    popularity: Callable[[], StreamPopularity]
    period: int = 1

    @property
    def relation_bytes(self) -> int:
        """Size of R."""
        return self.key_count * self.tuple_bytes


def zipf(
    key_count: int, exponent: float = 1.0, *, sorted_by_rank: bool, tuple_bytes: int = TUPLE_BYTES, name: str = ""
) -> Workload:
    """Zipf popularity: 000 §5 with R sorted by it (the most frequent key first), 003 §5.1 with R in any order.

    Args:
        key_count: R_t.
        exponent: 0 is uniform, 1 the papers' skew.
        sorted_by_rank: whether R's key order is that of popularity; if not, it is shuffled, always in the same way.
        tuple_bytes: v_R.
        name: instead of one made of the parameters.
    """
    order = "sorted by rank" if sorted_by_rank else "shuffled"
    return Workload(
        name or f"Zipf exponent {exponent:g}, R {order}",
        key_count,
        tuple_bytes,
        partial(_zipf_stream, key_count, exponent, sorted_by_rank),
        partial(ZipfStream, key_count, exponent, not sorted_by_rank),
    )


def temporal_locality(tuple_count: int, tuples_per_key: int, interval_tuples: int) -> Workload:
    """Temporal locality (003 §5.2.1): 25 intervals, each with Zipf exponent 1 over a 25th of the domain.

    Args:
        tuple_count: tuples of R of 120 bytes; each value of the domain [1, R/N] stands in N of them.
        tuples_per_key: N.
        interval_tuples: stream tuples of an interval; the paper's are 2 million for R = 100 million.
    """
    key_count = tuple_count // tuples_per_key
    return Workload(
        f"temporal locality, N = {tuples_per_key}",
        key_count,
        TUPLE_BYTES * tuples_per_key,
        partial(_local_stream, key_count, interval_tuples),
        partial(_local_popularity, key_count),
        period=LOCAL_INTERVALS * interval_tuples,
    )


def tpch_orders(customer_count: int) -> Workload:
    """TPC-H's Orders with Customer (003 §5.1), whose tuples have 223 bytes, in the keys that dbgen deals.

    Customers with a key divisible by 3 order nothing; the one after each has twice as many orders as the one after
    that. Within a class the orders' customers are uniform. No data need be generated for that.
    """
    return Workload(
        "TPC-H, customers as dbgen deals them",
        customer_count,
        CUSTOMER_BYTES,
        partial(_customer_stream, customer_count),
        partial(_customer_popularity, customer_count),
    )


def weather(tuple_count: int) -> Workload:
    """Cloud reports joined on longitude (003 §5.1): 36,001 values of LON, each with its group of reports in R.

    The data set (NDP-026B) is not at hand, so its skew is assumed: Zipf exponent 1 over the longitudes, which lie in
    any order of popularity. Where weather stations stand close together, and where ships round their position to
    whole degrees, many reports share a longitude. R's groups are taken to be of equal size: 555 reports of 128
    bytes for 20 million.
    """
    return zipf(
        LONGITUDES,
        sorted_by_rank=False,
        tuple_bytes=REPORT_BYTES * max(1, tuple_count // LONGITUDES),
        name="cloud reports by longitude",
    )


@lru_cache(maxsize=2)
def shuffled_keys(key_count: int) -> Int32Array:
    """The keys in a random order that is always the same, int32, shape (key_count,)."""
    keys: Int32Array = np.arange(key_count, dtype=np.int32)
    np.random.default_rng(key_count).shuffle(keys)
    return keys


def _zipf_stream(key_count: int, exponent: float, sorted_by_rank: bool, *, seed: int) -> Stream:
    key_of_rank = None if sorted_by_rank or exponent == 0 else shuffled_keys(key_count)
    return ZipfKeyStream(ZipfDistribution(key_count, exponent), key_of_rank, seed)


def _local_stream(key_count: int, interval_tuples: int, *, seed: int) -> Stream:
    return LocalStream(key_count, LOCAL_INTERVALS, interval_tuples, seed)


def _local_popularity(key_count: int) -> StreamPopularity:
    return LocalPopularity(LOCAL_INTERVALS, ZipfStream(key_count // LOCAL_INTERVALS, 1.0, True))


def _customer_stream(customer_count: int, *, seed: int) -> Stream:
    return OrderingCustomersStream(customer_count, seed)


@lru_cache(maxsize=1)
def _customer_popularity(customer_count: int) -> StreamPopularity:
    return CountedStream(np.array([0, 2, 1])[np.arange(1, customer_count + 1) % 3])
