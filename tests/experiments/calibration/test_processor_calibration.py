"""Measuring what a join's own work costs."""

import math
from dataclasses import asdict
from itertools import count

import pytest

from spark_jobs.experiments.calibration.front_stage_calibration import (
    FrontStageAtWork,
    measure_front_probe,
    measure_upkeep,
)
from spark_jobs.experiments.calibration.processor_calibration import measure_processor
from spark_jobs.experiments.calibration.step_calibration import RelationInMemory
from spark_jobs.lookup.relation.access_costs import real_clock


@pytest.mark.parametrize(
    ("waiting_tuples", "page_rows", "page_count", "cached_tuples"),
    [(1, 1, 1, 1), (1, 10, 100_000, 1), (5_000, 20, 10, 300), (100_000, 2_000, 1_000, 5_000)],
)
def test_every_step_costs_something(waiting_tuples: int, page_rows: int, page_count: int, cached_tuples: int) -> None:
    costs = measure_processor(
        waiting_tuples=waiting_tuples, page_rows=page_rows, page_count=page_count, cached_tuples=cached_tuples
    )
    steps = asdict(costs)
    multimap = steps.pop("multimap")
    assert all(0 <= seconds < math.inf for seconds in [*steps.values(), *multimap.values()] if seconds is not None)
    # The others are differences of times, and may come out as none where the machine is busy.
    for name in ("probe", "front_probe", "read", "append"):
        assert steps[name] > 0, name
    assert multimap["append"] > 0
    assert multimap["per_access"] > 0


def test_a_step_of_mesh_join_costs_more_than_one_of_hybrid_join() -> None:
    mesh, hybrid = [], []
    for _ in range(5):  # other work on the machine only adds to what a step takes: the quickest counts
        costs = measure_processor(waiting_tuples=10_000, page_rows=100, page_count=100, cached_tuples=100)
        assert costs.multimap is not None
        mesh.append(costs.multimap.per_access)
        hybrid.append(costs.per_access)
    assert min(mesh) > 1.3 * min(hybrid)  # it takes in, joins, and lets expire


def test_a_miss_of_a_relation_that_is_cached_whole_costs_what_misses_cost() -> None:
    """Not the noise of a thousand hits: it was milliseconds among nanoseconds."""
    ticks = count()
    upkeep = measure_upkeep(RelationInMemory(1, 25, 120), 25, 2000, 0.0, lambda: float(next(ticks)))
    assert upkeep.per_miss < 1


def test_a_probe_costs_more_among_keys_that_no_cache_of_the_processor_holds() -> None:
    def front_probe(cached_tuples: int) -> float:
        return measure_front_probe(cached_tuples, real_clock)

    assert min(front_probe(1_000_000) for _ in range(3)) > min(front_probe(1_000) for _ in range(3))


def test_what_a_call_takes_is_shared_out_among_its_tuples() -> None:
    ticks = count()
    costs = measure_processor(
        waiting_tuples=64_000, page_rows=500, page_count=10, cached_tuples=10, clock=lambda: float(next(ticks))
    )
    assert costs.probe == 1 / 500
    assert costs.emit == 0  # a page costs a tick however much it settles
    assert costs.front_probe == costs.read == 1 / 4096
    assert costs.evict == pytest.approx(1 / 64, rel=0.1)
    assert costs.append == pytest.approx(costs.evict / 10)
    assert costs.per_access == 1
    assert costs.multimap is not None
    assert costs.multimap.per_access == 1
    assert costs.multimap.probe == 0  # a page is one call, as is a single tuple


def test_the_back_stage_s_time_is_not_the_front_stage_s() -> None:
    """A tick before and after each call: those of the back stage are within the join's, and do not count."""
    relation = RelationInMemory(page_count=100, page_rows=10, tuple_bytes=120)
    ticks = count()
    at_work = FrontStageAtWork(relation, 50, 500, exponent=1.0, clock=lambda: float(next(ticks)))
    work = at_work.work(5_000)
    assert work.probes >= 5_000
    assert 0 < work.accesses <= work.offered < work.probes
    ticks_of_the_join = next(ticks)
    assert 0 < work.seconds < ticks_of_the_join / 2
