"""AGMS, the basic sketch: averages and median of atomic sketches."""

from __future__ import annotations

from typing import Self

import numpy as np

from spark_jobs.columns.jit import kernel, read_only
from spark_jobs.sketches.join_size import FloatArray, JoinSizeSketch
from spark_jobs.sketches.linear_sketch import Int64Array, as_arrays
from spark_jobs.sketches.polynomial_hash import Hashes, PolynomialHashes

# The highest bit of a hash value below 2^61 - 1 is as good as the others; a round number is easier to read in a dump.
_SIGNS_PER_HASH = 60
# Polynomials of a group are numbered from a multiple of this.
_MOST_HASHES = 1 << 20


class AgmsSketch(JoinSizeSketch):
    """Atomic sketches, each the sum of the stream's weights under a random sign for each value.

    The product of two streams' atomic sketches is their join size on average; a group's atoms are averaged, and the
    median of the groups is the estimate (AGMS99). A hash value of 61 bits gives the signs of 60 atoms; each group
    has polynomials of its own, so that groups are independent.

    Paper's names (001 §5): s1 is `atoms`, s2 is `groups`.

    Args:
        groups: whose median is taken; an odd number is best.
        atoms: that are averaged in each group.
        seed: of the signs.
    """

    kind = 1

    def __init__(self, groups: int, atoms: int, *, seed: int) -> None:
        super().__init__((groups, atoms), seed)
        words = -(-atoms // _SIGNS_PER_HASH)
        self._hashes = PolynomialHashes(
            seed, [group * _MOST_HASHES + word for group in range(groups) for word in range(words)]
        )

    def update(self, values: Int64Array, weights: Int64Array | None = None) -> None:
        """Count tuples, see LinearSketch.update. O(n groups atoms): 0.2 ns a tuple and atom."""
        values, weights = as_arrays(values, weights)
        for part, hashes in self._hashes.in_blocks(values):
            _add(self.counters, hashes, read_only(weights[part]))

    def row_joins(self, other: Self) -> FloatArray:
        """Each group's average of the products of its atoms, float64, shape (groups,)."""
        averages: FloatArray = np.einsum("ij,ij->i", self.counters.astype(np.float64), other.counters)
        return averages / self.row_counters


@kernel
def _add(counters: Int64Array, hashes: Hashes, weights: Int64Array) -> None:
    """A set bit is a minus sign: what has one counts off twice from the sum of all weights."""
    groups, atoms = counters.shape
    words = len(hashes) // groups
    total = weights.sum()
    negative = np.empty(_SIGNS_PER_HASH, np.int64)
    for function in range(len(hashes)):
        negative[:] = 0
        for i in range(len(weights)):
            code, weight = hashes[function, i], weights[i]
            for bit in range(_SIGNS_PER_HASH):
                negative[bit] += weight & -np.int64((code >> np.uint64(bit)) & np.uint64(1))
        group, first = function // words, function % words * _SIGNS_PER_HASH
        for bit in range(min(_SIGNS_PER_HASH, atoms - first)):
            counters[group, first + bit] += total - 2 * negative[bit]
