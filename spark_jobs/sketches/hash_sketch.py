"""The hash sketch: tables of signed counters, of which a tuple changes one a table."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.jit import kernel, kernel_part, read_only
from spark_jobs.sketches.join_size import FloatArray, JoinSizeSketch
from spark_jobs.sketches.linear_sketch import Int64Array, as_arrays
from spark_jobs.sketches.polynomial_hash import Hashes, PolynomialHashes

Places = NDArray[np.int32]

_MOST_BUCKETS = 1 << 30
_SIGN = np.uint64(1)
_BUCKET_SHIFT = np.uint64(29)
_BUCKET_BITS = np.uint64(32)


class HashSketch(JoinSizeSketch):
    """Tables of buckets: a table adds a tuple's weight, under the value's sign, to the counter of its bucket.

    The tables' sums of products are estimates of the join size, and their median is the sketch's; a counter under its
    value's sign is a table's estimate of that value's frequency, and their median is the sketch's (CCF02; 001 §4).
    Sign and bucket are bits of one hash value, which is 4-wise independent: more than buckets need. Known as count
    sketch, and as fast AGMS.

    Paper's names: s2 is `tables`, s1 is `buckets`, C[i, j] is `counters`, h_i and xi_i are bits of one function.

    Args:
        tables: whose median is taken; an odd number is best.
        buckets: of each table, at most 2^30.
        seed: of buckets and signs. The functions of a table don't depend on how many tables there are.
    """

    kind = 2

    def __init__(self, tables: int, buckets: int, *, seed: int) -> None:
        super().__init__((tables, buckets), seed)
        if buckets > _MOST_BUCKETS:
            raise ValueError(f"{buckets:,} buckets a table are too many: give at most {_MOST_BUCKETS:,}")
        self._hashes = PolynomialHashes(seed, range(tables))

    def update(self, values: Int64Array, weights: Int64Array | None = None) -> None:
        """Count tuples, see LinearSketch.update. O(n tables): 5 ns a tuple and table."""
        values, weights = as_arrays(values, weights)
        for part, hashes in self._hashes.in_blocks(values):
            _add(self.counters, hashes, read_only(weights[part]))

    def row_joins(self, other: Self) -> FloatArray:
        """Each table's sum of the products of its counters, float64, shape (tables,)."""
        sums: FloatArray = np.einsum("ij,ij->i", self.counters.astype(np.float64), other.counters)
        return sums

    def row_joins_with(self, values: Int64Array, weights: Int64Array) -> FloatArray:
        """Each table's estimate of the size of the join with tuples that are known exactly.

        Paper's name: ESTSUBJOINSIZE (001, Fig. 4), before its median.

        Args:
            values: int64, shape (n,).
            weights: int64, shape (n,).

        Returns:
            float64, shape (tables,). O(n tables).
        """
        values, weights = as_arrays(values, weights)
        sums = np.zeros(len(self.counters), np.float64)
        for part, hashes in self._hashes.in_blocks(values):
            _sum_products(self.counters, hashes, read_only(weights[part]), sums)
        return sums

    def frequencies(self, values: Int64Array) -> FloatArray:
        """Estimated frequencies: medians over the tables, float64, shape (n,). O(n tables)."""
        estimates = np.empty(len(values), np.float64)
        for part, hashes in self._hashes.in_blocks(np.ascontiguousarray(values, np.int64)):
            estimates[part] = np.median(_counted(self.counters, hashes), axis=0)
        return estimates

    def places(self, values: Int64Array) -> Places:
        """Where each value lies in each table, for who asks for the same values again and again.

        Returns:
            int32, shape (tables, n): twice the bucket, and one more if the sign is negative. O(n tables).
        """
        places = np.empty((len(self.counters), len(values)), np.int32)
        for part, hashes in self._hashes.in_blocks(np.ascontiguousarray(values, np.int64)):
            _locate(self.row_counters, hashes, places[:, part])
        return places


@kernel_part
def _bucket(code: Any, buckets: Any) -> Any:
    """32 bits of a hash value as a fraction of the buckets."""
    return np.int64(((code >> _BUCKET_SHIFT) * np.uint64(buckets)) >> _BUCKET_BITS)


@kernel_part
def _signed(code: Any, weight: Any) -> Any:
    """The weight under the sign of a hash value, its lowest bit; without a branch, which would be guessed wrong."""
    negative = -np.int64(code & _SIGN)
    return (weight ^ negative) - negative


@kernel
def _add(counters: Int64Array, hashes: Hashes, weights: Int64Array) -> None:
    tables, buckets = counters.shape
    for table in range(tables):
        for i in range(len(weights)):
            code = hashes[table, i]
            counters[table, _bucket(code, buckets)] += _signed(code, weights[i])


@kernel
def _sum_products(counters: Int64Array, hashes: Hashes, weights: Int64Array, sums: FloatArray) -> None:
    tables, buckets = counters.shape
    for table in range(tables):
        for i in range(len(weights)):
            code = hashes[table, i]
            counter = _signed(code, counters[table, _bucket(code, buckets)])
            sums[table] += np.float64(counter) * np.float64(weights[i])


@kernel
def _counted(counters: Int64Array, hashes: Hashes) -> Int64Array:
    tables, buckets = counters.shape
    counted = np.empty(hashes.shape, np.int64)
    for table in range(tables):
        for i in range(hashes.shape[1]):
            code = hashes[table, i]
            counted[table, i] = _signed(code, counters[table, _bucket(code, buckets)])
    return counted


@kernel
def _locate(buckets: int, hashes: Hashes, places: Places) -> None:
    for table in range(len(hashes)):
        for i in range(hashes.shape[1]):
            code = hashes[table, i]
            places[table, i] = np.int32(2 * _bucket(code, buckets) + np.int64(code & _SIGN))
