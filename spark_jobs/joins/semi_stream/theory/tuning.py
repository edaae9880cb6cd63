"""The best disk buffer and the best front stage: where the derivative of the predicted cost is zero."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.joins.semi_stream.theory.popularity import StreamPopularity
from spark_jobs.joins.semi_stream.theory.prediction import PAPER_FRONT_SHARE, predict
from spark_jobs.joins.semi_stream.theory.root import increasing_root
from spark_jobs.joins.semi_stream.theory.setting import Setting

# Derivatives are central differences over a step this wide, which smooths over pages that R is not a multiple of.
_STEP = 0.1
_BRACKET = 0.7
_TOLERANCE = 1e-3
# A disk buffer takes at most this part of the back stage's memory; a front stage, of all memory.
_LARGEST_PAGE_PART = 0.6
_LARGEST_SHARE = 0.95
_SMALLEST_SHARE = 1e-4
# Instead of the logarithm of the seconds a tuple takes, where memory is too small for the algorithm to work at all.
_DOES_NOT_WORK = 1e3


def best_page_rows(
    algorithm: str, setting: Setting, stream: StreamPopularity, front_share: float = PAPER_FRONT_SHARE
) -> int:
    """The size of the disk buffer at which the service rate is highest (000 §4.5), in tuples of R.

    A larger page costs more to read, holds more tuples that are waited for, and leaves less memory to wait in. At the
    best size d mu / d v_P = 0: the next per cent of its size adds as much to w as to c_loop, in per cent.

    Args:
        algorithm: one of those that read pages; for others no size is better than another.
        setting: its `page_rows` is not looked at.
        stream: how popular R's tuples are.
        front_share: part of the memory for the front stage, of an algorithm that has one.
    """

    def log_cost(log_rows: float) -> float:
        sized = replace(setting, page_rows=float(np.exp(log_rows)))
        return _log_seconds(algorithm, sized, stream, front_share)

    back_stage_bytes = setting.memory_bytes * (1 - _LARGEST_SHARE if front_share > _LARGEST_SHARE else 1 - front_share)
    largest = min(setting.row_count, max(2.0, _LARGEST_PAGE_PART * back_stage_bytes / setting.tuple_bytes))
    return max(1, round(float(np.exp(_last_minimum(log_cost, 0.0, float(np.log(largest)))))))


def best_front_share(algorithm: str, setting: Setting, stream: StreamPopularity) -> float:
    """The front stage's part of the memory at which the service rate is highest (003 §5.4, Fig. 9a).

    What it takes from the back stage makes each miss dearer, what it holds makes misses fewer. The best share is
    where d mu / d share = 0. A small cache of a stream of little skew learns too little to pay for itself: there may
    be a second, worse optimum at 0, so the search goes down from a large share.

    Args:
        algorithm: a cached one.
        setting: with the memory of both stages.
        stream: how popular R's tuples are.

    Returns:
        From 0, if no front stage pays, to 1.
    """

    def cost(log_odds: float) -> float:
        return _log_seconds(algorithm, setting, stream, _share(log_odds))

    most = 1 - 2 * setting.page_bytes / setting.memory_bytes
    if most <= _SMALLEST_SHARE:
        return 0.0
    lowest, highest = _log_odds(_SMALLEST_SHARE), _log_odds(min(most, _LARGEST_SHARE))
    best = _last_minimum(cost, lowest, highest)
    return _share(best) if best > lowest and cost(best) < cost(lowest) else 0.0


def _log_seconds(algorithm: str, setting: Setting, stream: StreamPopularity, front_share: float) -> float:
    try:
        return -float(np.log(predict(algorithm, setting, stream, front_share).service_rate))
    except MemoryBudgetError:
        return _DOES_NOT_WORK


def _last_minimum(cost: Callable[[float], float], lowest: float, highest: float) -> float:
    """The minimum nearest to the upper bound, by the sign of the derivative; a bound, if there is none between."""

    def derivative(at: float) -> float:
        return cost(at + _STEP) - cost(at - _STEP)

    low, high = lowest + _STEP, highest - _STEP
    above = high
    while above > low:
        below = max(low, above - _BRACKET)
        if derivative(below) < 0:
            return highest if above == high and derivative(high) <= 0 else _root_between(derivative, below, above)
        above = below
    return lowest


def _root_between(derivative: Callable[[float], float], below: float, above: float) -> float:
    return below + increasing_root(lambda further: derivative(below + further), 0.0, above - below, _TOLERANCE)


def _share(log_odds: float) -> float:
    return float(1 / (1 + np.exp(-log_odds)))


def _log_odds(share: float) -> float:
    return float(np.log(share / (1 - share)))
