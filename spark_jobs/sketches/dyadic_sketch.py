"""Finds the dense values of a domain that is too large to be enumerated, by intervals that are halved."""

from __future__ import annotations

import numpy as np

from spark_jobs.sketches.hash_sketch import HashSketch
from spark_jobs.sketches.linear_sketch import Int64Array, LinearSketch, as_arrays
from spark_jobs.sketches.skimmed import noise_threshold

# Intervals of the coarsest level.
_COARSEST_BITS = 6
_MOST_DOMAIN_BITS = 63


class DyadicSketch(LinearSketch):
    """A hash sketch of the values, and one of the intervals of length 2, 4, 8, ... that they lie in.

    A dense value makes each of its intervals dense, unless deletes outweigh the others there. So dense values are found
    from the coarsest level downwards, by looking into the halves of dense intervals only (001 §4; CM03).

        level 2   [0 ............ 7]   [8 ........... 15]        9 came often:
        level 1   [0 .. 3] [4 .. 7]   [8 .. 11] [12 .. 15]       8 .. 15 is dense, so are 8 .. 11 and 8 .. 9;
        level 0    0 1 2 3  4 5 6 7    8 9 10 11  12 13 14 15    nothing else is looked at

    Args:
        levels: of intervals; values are below 2^(levels + 5).
        tables: of each level.
        buckets: of each table.
        seed: of all levels.
    """

    kind = 3

    def __init__(self, levels: int, tables: int, buckets: int, *, seed: int) -> None:
        super().__init__((levels, tables, buckets), seed)
        if self.domain_bits > _MOST_DOMAIN_BITS:
            most = _MOST_DOMAIN_BITS - _COARSEST_BITS + 1
            raise ValueError(f"{levels} levels are for more values than int64 has: give at most {most}")

    @classmethod
    def for_domain(cls, values: int, tables: int, buckets: int, *, seed: int) -> DyadicSketch:
        """The sketch with as many levels as values from 0 to below this number need."""
        bits = max(1, values - 1).bit_length()
        return cls(max(1, bits - _COARSEST_BITS + 1), tables, buckets, seed=seed)

    @property
    def domain_bits(self) -> int:
        """Values are below 2^this."""
        return len(self.counters) + _COARSEST_BITS - 1

    def level(self, number: int) -> HashSketch:
        """The hash sketch of the intervals of length 2^number; its counters are these."""
        made = HashSketch(*self.counters.shape[1:], seed=self.seed + number)
        made.counters = self.counters[number]
        return made

    @property
    def values(self) -> HashSketch:
        """The hash sketch of the values themselves, to skim and to join."""
        return self.level(0)

    def update(self, values: Int64Array, weights: Int64Array | None = None) -> None:
        """Count tuples, see LinearSketch.update. O(n levels tables).

        Raises:
            ValueError: a value lies outside the domain.
        """
        values, weights = as_arrays(values, weights)
        if len(values) and (values.min() < 0 or int(values.max()) >> self.domain_bits):
            raise ValueError(
                f"values run from {values.min()} to {values.max()}, but the sketch has levels for 0 to "
                f"{2**self.domain_bits - 1}: make it for a larger domain, or hash the values into this one"
            )
        for number in range(len(self.counters)):
            self.level(number).update(values >> number, weights)

    def dense_values(self, threshold: float | None = None) -> Int64Array:
        """Values that may be dense, ascending: candidates to skim.

        Args:
            threshold: least estimate of a dense interval on every level; None for one that follows each level's noise.

        Returns:
            int64, shape (k,). O(k levels tables): a level has at most twice as many intervals to look at as the former
            had dense ones.
        """
        top = len(self.counters) - 1
        intervals = np.arange(1 << _COARSEST_BITS, dtype=np.int64)
        for number in range(top, -1, -1):
            sketch = self.level(number)
            least = noise_threshold(sketch, len(intervals)) if threshold is None else threshold
            intervals = intervals[sketch.frequencies(intervals) >= max(least, 1.0)]
            if number:
                intervals = (2 * intervals[:, None] + np.arange(2)).ravel()
        return intervals
