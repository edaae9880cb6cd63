"""Measures what a front stage costs: its probes, and to keep what it holds up to date, before a HYBRIDJOIN at work."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from spark_jobs.experiments.calibration.step_calibration import RelationInMemory
from spark_jobs.joins.semi_stream.base import Int64Array, Relation, Step
from spark_jobs.joins.semi_stream.cached_join import CachedJoin
from spark_jobs.joins.semi_stream.hot_set import HotSet
from spark_jobs.joins.semi_stream.hybrid_join import HybridJoin
from spark_jobs.joins.semi_stream.theory.front_stage_model import front_stage_bytes
from spark_jobs.joins.structures.stream_tuples import StreamTuples
from spark_jobs.lookup.relation.access_costs import ROUNDS, Clock, median_of_means, seconds_of
from spark_jobs.workload.zipf import ZipfKeys

_INDEX_PART = 1.25  # of a page: its tuples and the index of their keys
_SEED = 1
_BEYOND_IDS = 1 << 62

_PROBES = 20 * ROUNDS
_TUPLES_AT_ONCE = 4096
# Stream tuples a slot until the cache is settled, and in each round of measuring.
_WARM_UP_PER_SLOT = 40
_MEASURED_PER_SLOT = 16
_FEWEST_SLOTS, _MOST_SLOTS = 1 << 6, 1 << 14
_LEAST_TUPLES_PER_SLOT = 2
_EXPONENT = 1.0
# A uniform stream and pages of one tuple: a step settles about one.
_SINGLE_PAGES = 1 << 14
_SINGLE_SLOTS = 1 << 7
_SINGLE_WAITING = 1 << 10


class FrontStageWork(NamedTuple):
    """What a front stage did, and how long that took.

    Attributes:
        seconds: without the back stage's.
        probes: stream tuples that came.
        offered: stream tuples that the back stage settled; as many as missed the front stage in the long run.
        accesses: steps of the back stage.
    """

    seconds: float
    probes: int
    offered: int
    accesses: int


class FrontStageAtWork:
    """A front stage and a full HYBRIDJOIN, whose steps are timed apart; the stream never lets them wait.

    Args:
        relation: R.
        cached_tuples: about how many are in the front stage.
        waiting_tuples: in HYBRIDJOIN.
        exponent: skew of the stream by Zipf's law; popular tuples lie anywhere in R.
        clock: tells seconds.
    """

    def __init__(
        self, relation: RelationInMemory, cached_tuples: int, waiting_tuples: int, exponent: float, clock: Clock
    ) -> None:
        self._relation = relation
        self._clock = clock
        self._keys = ZipfKeys(np.arange(relation.row_count), exponent, shuffle_seed=[_SEED])
        self._random = np.random.default_rng(_SEED)
        front_bytes = front_stage_bytes(cached_tuples + 1, relation.tuple_bytes)
        back_bytes = _INDEX_PART * relation.page_bytes + StreamTuples.bytes_for(waiting_tuples)
        memory_bytes = int(front_bytes + back_bytes)
        self._join = CachedJoin(relation, memory_bytes, self._back_stage, front_bytes / memory_bytes)
        self._fill_back_stage()

    def work(self, tuples: int, settled: int = 0) -> FrontStageWork:
        """Go on until this many more stream tuples have come, and the back stage has settled that many."""
        join, back_stage = self._join, self._timed
        before, working, back_stage.seconds = self._counts(), 0.0, 0.0
        until, until_settled = join.statistics.pushed + tuples, back_stage.statistics.matched + settled
        while join.statistics.pushed < until or back_stage.statistics.matched < until_settled:
            while room := join.room:
                first = join.statistics.pushed
                keys = self._keys.draw(room, self._random)
                pages, ids = keys // self._relation.page_rows, np.arange(first, first + room)
                working += seconds_of(self._clock, partial(join.push, keys, pages, ids))
            working += seconds_of(self._clock, join.advance)
        counted = (now - then for now, then in zip(self._counts(), before, strict=True))
        return FrontStageWork(working - back_stage.seconds, *counted)

    def _counts(self) -> tuple[int, int, int]:
        own, back_stage = self._join.statistics, self._timed.statistics
        return own.pushed, back_stage.matched, back_stage.pages_read

    def _fill_back_stage(self) -> None:
        """Let tuples wait that have missed the front stage; no id of theirs is a stream tuple's."""
        count = self._timed.room
        keys = self._random.integers(self._relation.row_count, size=count)
        self._timed.push(keys, keys // self._relation.page_rows, _BEYOND_IDS + np.arange(count))

    def _back_stage(self, relation: Relation, memory_bytes: int) -> HybridJoin:
        self._timed = _TimedHybridJoin(relation, memory_bytes, self._clock)
        return self._timed


class _TimedHybridJoin(HybridJoin):
    """A HYBRIDJOIN that adds up how long it works."""

    def __init__(self, relation: Relation, memory_bytes: int, clock: Clock) -> None:
        super().__init__(relation, memory_bytes)
        self.seconds = 0.0
        self._clock = clock

    def push(self, keys: Int64Array, pages: Int64Array, ids: Int64Array) -> None:
        started = self._clock()
        super().push(keys, pages, ids)
        self.seconds += self._clock() - started

    def advance(self, *, ending: bool = False) -> Step:
        started = self._clock()
        step = super().advance(ending=ending)
        self.seconds += self._clock() - started
        return step


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
    hot_set, _ = HotSet.arranged(0, random.permutation(2 * cached_tuples)[:cached_tuples])
    hot_set.probe(hot_set.keys)
    batches = random.integers(2 * cached_tuples, size=(_PROBES, _TUPLES_AT_ONCE))
    seconds = [seconds_of(clock, partial(hot_set.probe, keys)) for keys in batches]
    return median_of_means(seconds) / _TUPLES_AT_ONCE


def measure_upkeep(
    relation: RelationInMemory, cached_tuples: int, waiting_tuples: int, front_probe: float, clock: Clock
) -> Upkeep:
    """Let a front stage work, and see what it takes beyond its probes; hits, which are cheap, are shared out.

    Args:
        relation: as large as R, and in pages as large; a smaller one than twice the front stage is made larger.
        cached_tuples: in the front stage; sixteen thousand tell what more of them would.
        waiting_tuples: stream tuples in the back stage.
        front_probe: seconds of a probe.
        clock: tells seconds.
    """
    single = RelationInMemory(_SINGLE_PAGES, 1, relation.tuple_bytes)
    of_single = FrontStageAtWork(single, _SINGLE_SLOTS, _SINGLE_WAITING, 0.0, clock)
    slots = max(_FEWEST_SLOTS, min(cached_tuples, _MOST_SLOTS))
    # Where next to nothing misses, the noise of all probes would be the cost of a tuple or two: milliseconds.
    pages = max(relation.page_count, -(-_LEAST_TUPLES_PER_SLOT * slots // relation.page_rows))
    relation = RelationInMemory(pages, relation.page_rows, relation.tuple_bytes)
    of_pages = FrontStageAtWork(relation, slots, waiting_tuples, _EXPONENT, clock)
    of_single.work(_WARM_UP_PER_SLOT * _SINGLE_SLOTS)
    of_pages.work(_WARM_UP_PER_SLOT * slots)
    per_access, per_miss = [], []
    for _ in range(ROUNDS):
        work = of_single.work(_MEASURED_PER_SLOT * _SINGLE_SLOTS)
        per_access.append((work.seconds - work.probes * front_probe) / max(1, work.accesses))
        work = of_pages.work(_MEASURED_PER_SLOT * slots, settled=slots)
        steps = work.accesses * per_access[-1]
        per_miss.append((work.seconds - work.probes * front_probe - steps) / max(1, work.offered))
    return Upkeep(*(max(0.0, float(np.median(seconds))) for seconds in (per_access, per_miss)))
