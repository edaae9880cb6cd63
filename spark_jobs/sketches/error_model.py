"""How far off join sizes are expected to be, from the streams' frequencies alone."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from spark_jobs.sketches.skimmed import MOST_PASSES, dense_threshold

Frequencies = NDArray[np.float64]

_MEDIAN_FACTOR = math.pi / 2


def basic_deviation(f: Frequencies, g: Frequencies, rows: int, row_counters: int) -> float:
    """Standard deviation of the join size that a sketch's rows estimate without skimming, AGMS or hash sketch.

    A row's variance is (F2 G2 + J^2 - 2 sum f^2 g^2) / s, of which AGMS99 gives the bound 2 F2 G2 / s; the median of
    many rows has pi / 2 times the variance of their average. That holds where a row's error is about normal: of AGMS
    and of what skimming leaves. In a plain hash sketch of a skewed stream it comes from the few tables in which two
    dense values share a bucket, and the median is better than told here.

    Args:
        f: frequency of each value of the domain in one stream, float64, shape (n,).
        g: the same in the other.
        rows: groups or tables.
        row_counters: atoms or buckets of each.
    """
    return math.sqrt(_row_variance(f, g, row_counters) * _MEDIAN_FACTOR / rows)


def skimmed_deviation(f: Frequencies, g: Frequencies, tables: int, buckets: int) -> float:
    """The same of skimmed sketches: of the subjoins that are estimated, of which each is a median of its own.

    Args:
        f: as above.
        g: as above.
        tables: of each hash sketch.
        buckets: of each table.
    """
    (f_dense, f_rest), (g_dense, g_rest) = (_skimmed(each, tables, buckets) for each in (f, g))
    pairs = ((f_dense, g_rest), (f_rest, g_dense), (f_rest, g_rest))
    return math.sqrt(sum(basic_deviation(first, second, tables, buckets) ** 2 for first, second in pairs))


def _row_variance(f: Frequencies, g: Frequencies, row_counters: int) -> float:
    products = f * g
    return float((f @ f) * (g @ g) + products.sum() ** 2 - 2 * products @ products) / row_counters


def _skimmed(f: Frequencies, tables: int, buckets: int) -> tuple[Frequencies, Frequencies]:
    """What leaves the sketch, and what is left: the sparse values, and of the dense ones what was estimated wrong.

    Pass by pass as `skim` does it, with every value found that is as frequent as the threshold.
    """
    dense = np.zeros(len(f), np.bool_)
    rest = f
    for _ in range(MOST_PASSES):
        self_join = float(rest @ rest)
        dense |= f >= dense_threshold(self_join, tables, buckets, len(f))
        wrong = math.sqrt(self_join / buckets * _MEDIAN_FACTOR / tables)
        rest = np.where(dense, np.minimum(wrong, f), f)
    return np.where(dense, f, 0.0), rest
