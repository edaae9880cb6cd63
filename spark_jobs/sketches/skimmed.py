"""Skimmed sketches: the dense values are taken out of a hash sketch and joined exactly, the rest is estimated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from spark_jobs.columns.jit import kernel, kernel_part, read_only
from spark_jobs.errors import SketchMismatchError
from spark_jobs.sketches.hash_sketch import HashSketch, Places
from spark_jobs.sketches.join_size import CONFIDENCE, Estimate, median_error
from spark_jobs.sketches.linear_sketch import Int64Array

MOST_PASSES = 8
# How many times the variance of their average the median of many normal variables has.
_MEDIAN_FACTOR = math.pi / 2
# Candidates that are counted together: what is counted stays in the first-level cache.
_BLOCK = 2_048
# Tables that speak for a candidate are counted in the lower half of a number, those for its negative in the upper.
_NEGATIVE_SHIFT = 16
_POSITIVE = (1 << _NEGATIVE_SHIFT) - 1


class Candidates:
    """Values that may be dense, and where they lie: a whole domain, or what a DyadicSketch finds.

    4 bytes a value and table; made once, they serve all sketches of the same seed and buckets that have as many tables
    or fewer.

    Args:
        sketch: one of these.
        values: int64, shape (n,), distinct.

    Raises:
        ValueError: a value stands twice, and would be taken out twice.
    """

    def __init__(self, sketch: HashSketch, values: Int64Array) -> None:
        self.values = np.ascontiguousarray(values, np.int64)
        distinct = len(np.unique(self.values))
        if distinct < len(self.values):
            raise ValueError(f"{len(self.values):,} candidates are {distinct:,} values: give each of them once")
        self.places = sketch.places(self.values)
        self._seed, self._buckets = sketch.seed, sketch.row_counters

    def check_fits(self, sketch: HashSketch) -> None:
        """See that the candidates lie where this sketch has them.

        Raises:
            SketchMismatchError: seed or buckets differ, or there are more tables.
        """
        tables, buckets = sketch.counters.shape
        if sketch.seed != self._seed or buckets != self._buckets or tables > len(self.places):
            raise SketchMismatchError(
                f"Candidates of a sketch of seed {self._seed}, {len(self.places)} tables and {self._buckets} buckets "
                f"don't lie there in one of seed {sketch.seed}, {tables} tables and {buckets} buckets: make them anew "
                "from that sketch."
            )


@dataclass(frozen=True)
class Skimmed:
    """A stream as its dense values and a sketch of the rest.

        before        a hash sketch of        #         .  : . .#. .
        after         dense values, exactly   #                 #
                      a hash sketch of        '         .  : . . . .     (with what is wrong in the estimates)

    Paper's names: f-hat is `frequencies`, and `rest` is the skimmed sketch C', of the residual frequencies f'.

    Attributes:
        values: int64, shape (k,), the dense ones, distinct.
        frequencies: int64, shape (k,), their estimates.
        rest: sketch of the stream without these.
    """

    values: Int64Array
    frequencies: Int64Array
    rest: HashSketch

    def join_size(self, other: Self, confidence: float = CONFIDENCE) -> Estimate:
        """The size of the join of two streams, as the sum of four subjoins.

        Dense with dense is computed exactly; dense with sparse, sparse with dense and sparse with sparse are medians
        over the tables. ESTSKIMJOINSIZE (001 §4).

        The error that is told is that of JoinSizeSketch with the frequencies that are left: 2 F2 G2 / s of each subjoin
        (001, Lemmas 1 and 2, Theorem 5; their constants are in a report that is not public). It takes the dense
        frequencies as given; they come from the same hash functions, and how seldom that matters is measured by the
        tests.

        Args:
            other: the other stream, whose sketch has the same seed and shape.
            confidence: of the error that is told.

        Raises:
            SketchMismatchError: the sketches don't belong together.
        """
        self.rest.check_fits(other.rest)
        dense = self._dense_join(other)
        sparse = float(np.median(self.rest.row_joins(other.rest)))
        if self is other:
            mixed = 2 * _median_with(self, self.rest)
        else:
            mixed = _median_with(self, other.rest) + _median_with(other, self.rest)
        risk = (1 - confidence) / 5
        f2, g2 = self.rest.largest_self_join(risk), other.rest.largest_self_join(risk)
        products = (f2 * g2, _squares(self) * g2, _squares(other) * f2)
        tables, buckets = self.rest.counters.shape
        error = sum(median_error(2 * product / buckets, tables, risk) for product in products)
        return Estimate(dense + mixed + sparse, error, confidence)

    def self_join_size(self, confidence: float = CONFIDENCE) -> Estimate:
        """The size of the stream's join with itself, with the same error."""
        return self.join_size(self, confidence)

    def _dense_join(self, other: Self) -> float:
        _, mine, others = np.intersect1d(self.values, other.values, assume_unique=True, return_indices=True)
        return float(self.frequencies[mine].astype(np.float64) @ other.frequencies[others])


def skim(
    sketch: HashSketch, candidates: Candidates, *, threshold: float | None = None, passes: int = MOST_PASSES
) -> Skimmed:
    """Take the dense values out of a sketch, which itself is left as it is.

    A pass takes out all candidates whose estimate is the threshold at least, in absolute value, and subtracts the
    estimates from the sketch: SKIMDENSE (001 §4), with `threshold` given and `passes=1`. The paper's threshold
    grows with the stream's size, n / sqrt(buckets). Left to itself the threshold follows the noise that is seen in the
    sketch (`noise_threshold`), which is far below that for skewed streams, and falls as dense values leave: so the next
    pass finds more of them, and corrects the former estimates, until none is left.

    Args:
        sketch: of the stream.
        candidates: values that may be dense; others stay in the sketch.
        threshold: least estimate of a dense value; None for one that follows the noise.
        passes: at most.

    Returns:
        The dense values and the sketch of the rest. O(candidates tables) a pass.

    Raises:
        SketchMismatchError: the candidates were made for another sketch.
    """
    candidates.check_fits(sketch)
    rest = sketch.with_counters(sketch.counters.copy())
    places = read_only(candidates.places[: len(sketch.counters)])
    frequencies = np.zeros(len(candidates.values), np.int64)
    for _ in range(passes):
        least = noise_threshold(rest, len(candidates.values)) if threshold is None else threshold
        found, estimates = _dense(read_only(rest.counters), places, max(least, 1.0))
        if not len(found):
            break
        _subtract(rest.counters, places, found, estimates)
        frequencies[found] += estimates
    dense = np.flatnonzero(frequencies)
    return Skimmed(candidates.values[dense], frequencies[dense], rest)


def noise_threshold(sketch: HashSketch, candidates: int) -> float:
    """The threshold that follows the noise in a sketch: see `dense_threshold`."""
    tables, buckets = sketch.counters.shape
    return dense_threshold(float(np.median(sketch.row_joins(sketch))), tables, buckets, candidates)


def dense_threshold(self_join: float, tables: int, buckets: int, candidates: int) -> float:
    """What the estimate of a value that never came exceeds for about one of the candidates, or none.

    A counter's variance is the stream's self-join size over the buckets; the median over the tables varies less; and
    the largest of n normal variables is sqrt(2 ln n) on average (the universal threshold of Donoho and Johnstone,
    Biometrika 1994). As long as very dense values are in the sketch the noise is theirs, and they alone are above it.

    Args:
        self_join: of the stream that is in the sketch.
        tables: of the sketch.
        buckets: of each table.
        candidates: how many values are looked at.
    """
    noise = math.sqrt(self_join / buckets * _MEDIAN_FACTOR / tables)
    return noise * math.sqrt(2 * math.log(max(candidates, 2)))


def _median_with(dense: Skimmed, rest: HashSketch) -> float:
    return float(np.median(rest.row_joins_with(dense.values, dense.frequencies)))


def _squares(dense: Skimmed) -> float:
    return float(np.square(dense.frequencies.astype(np.float64)).sum())


@kernel
def _dense(counters: Int64Array, places: Places, least: float) -> tuple[Int64Array, Int64Array]:
    """Candidates whose median estimate is large enough, and it, rounded: so that the rest stays whole numbers.

    First it is counted in how many tables a candidate is large enough, positive or negative: few are sorted then.
    """
    tables, candidates = places.shape
    needed = (tables + 1) // 2
    votes = _votes(counters, least)
    counted = np.empty(_BLOCK, np.int32)
    found, estimates = np.empty(candidates, np.int64), np.empty(candidates, np.int64)
    by_table = np.empty(tables, np.int64)
    count = 0
    for start in range(0, candidates, _BLOCK):
        end = min(start + _BLOCK, candidates)
        counted[:] = 0
        for table in range(tables):
            for i in range(end - start):
                counted[i] += votes[table, np.uint32(places[table, start + i])]
        for i in range(end - start):
            if max(counted[i] & _POSITIVE, counted[i] >> _NEGATIVE_SHIFT) < needed:
                continue
            for table in range(tables):
                place = places[table, start + i]
                by_table[table] = _signed(counters[table, place >> 1], place)
            median = np.median(by_table)
            if abs(median) >= least:
                found[count], estimates[count] = start + i, np.int64(np.rint(median))
                count += 1
    return found[:count], estimates[:count]


@kernel_part
def _votes(counters: Any, least: Any) -> Any:
    """For each place one in the lower half if what lies there is large enough, or in the upper half if negative."""
    votes = np.zeros((counters.shape[0], 2 * counters.shape[1]), np.int32)
    for table in range(counters.shape[0]):
        for bucket in range(counters.shape[1]):
            counter = counters[table, bucket]
            if abs(counter) >= least:
                negative = np.int64(counter < 0)
                votes[table, 2 * bucket + negative] = 1
                votes[table, 2 * bucket + 1 - negative] = 1 << _NEGATIVE_SHIFT
    return votes


@kernel
def _subtract(counters: Int64Array, places: Places, found: Int64Array, estimates: Int64Array) -> None:
    for j in range(len(found)):
        for table in range(len(counters)):
            place = places[table, found[j]]
            counters[table, place >> 1] -= _signed(estimates[j], place)


@kernel_part
def _signed(count: Any, place: Any) -> Any:
    """A count under the sign that a place has in its lowest bit; without a branch, which would be guessed wrong."""
    negative = -np.int64(place & 1)
    return (count ^ negative) - negative
