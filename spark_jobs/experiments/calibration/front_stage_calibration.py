"""Measures what a front stage costs: its probes, and to keep what it holds up to date."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from spark_jobs.experiments.calibration.front_stage_at_work import FrontStageAtWork
from spark_jobs.experiments.calibration.relation_in_memory import RelationInMemory
from spark_jobs.joins.semi_stream.hot_set import HotSet
from spark_jobs.relation.access_costs import ROUNDS, Clock, median_of_means, seconds_of

_PROBES = 20 * ROUNDS
_TUPLES_AT_ONCE = 4096
# Stream tuples a slot until the cache is settled, and in each round of measuring.
_WARM_UP_PER_SLOT = 40
_MEASURED_PER_SLOT = 16
_FEWEST_SLOTS, _MOST_SLOTS = 1 << 6, 1 << 14
_EXPONENT = 1.0
# A uniform stream and pages of one tuple: a step settles about one.
_SINGLE_PAGES = 1 << 14
_SINGLE_SLOTS = 1 << 7
_SINGLE_WAITING = 1 << 10


class Upkeep(NamedTuple):
    """Seconds that a front stage costs besides its probes.

    Attributes:
        per_access: a step of the back stage.
        per_miss: a stream tuple that goes on to the back stage.
    """

    per_access: float
    per_miss: float


def measure_front_probe(cached_tuples: int, clock: Clock) -> float:
    """Seconds for a stream tuple looked up among the cached ones, every other one in vain."""
    random = np.random.default_rng(cached_tuples)
    hot_set = HotSet(0, random.permutation(2 * cached_tuples)[:cached_tuples])
    hot_set.probe(hot_set.keys)
    batches = random.integers(2 * cached_tuples, size=(_PROBES, _TUPLES_AT_ONCE))
    seconds = [seconds_of(clock, partial(hot_set.probe, keys)) for keys in batches]
    return median_of_means(seconds) / _TUPLES_AT_ONCE


def measure_upkeep(
    relation: RelationInMemory, cached_tuples: int, waiting_tuples: int, front_probe: float, clock: Clock
) -> Upkeep:
    """Let a front stage work, and see what it takes beyond its probes; hits, which are cheap, are shared out.

    Args:
        relation: as large as R, and in pages as large.
        cached_tuples: in the front stage; sixteen thousand tell what more of them would.
        waiting_tuples: stream tuples in the back stage.
        front_probe: seconds of a probe.
        clock: tells seconds.
    """
    single = RelationInMemory(_SINGLE_PAGES, 1, relation.tuple_bytes)
    of_single = FrontStageAtWork(single, _SINGLE_SLOTS, _SINGLE_WAITING, 0.0, clock)
    slots = max(_FEWEST_SLOTS, min(cached_tuples, _MOST_SLOTS))
    of_pages = FrontStageAtWork(relation, slots, waiting_tuples, _EXPONENT, clock)
    of_single.work(_WARM_UP_PER_SLOT * _SINGLE_SLOTS)
    of_pages.work(_WARM_UP_PER_SLOT * slots)
    per_access, per_miss = [], []
    for _ in range(ROUNDS):
        work = of_single.work(_MEASURED_PER_SLOT * _SINGLE_SLOTS)
        per_access.append((work.seconds - work.probes * front_probe) / max(1, work.accesses))
        work = of_pages.work(_MEASURED_PER_SLOT * slots)
        steps = work.accesses * per_access[-1]
        per_miss.append((work.seconds - work.probes * front_probe - steps) / max(1, work.offered))
    return Upkeep(*(max(0.0, float(np.median(seconds))) for seconds in (per_access, per_miss)))
