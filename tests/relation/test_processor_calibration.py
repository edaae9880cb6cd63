"""Measuring what a join's own work costs."""

import math
from dataclasses import asdict
from itertools import count

import pytest

from spark_jobs.relation.calibration import measure_processor


@pytest.mark.parametrize(
    ("waiting_tuples", "page_rows", "page_count", "cached_tuples"),
    [(1, 1, 1, 1), (5_000, 20, 10, 300), (100_000, 2_000, 1_000, 50_000)],
)
def test_every_step_costs_something(waiting_tuples: int, page_rows: int, page_count: int, cached_tuples: int) -> None:
    costs = asdict(
        measure_processor(
            waiting_tuples=waiting_tuples, page_rows=page_rows, page_count=page_count, cached_tuples=cached_tuples
        )
    )
    assert all(0 < seconds < math.inf for seconds in costs.values()), costs


def test_a_probe_costs_more_among_keys_that_no_cache_of_the_processor_holds() -> None:
    def front_probe(cached_tuples: int) -> float:
        sizes = {"waiting_tuples": 1_000, "page_rows": 100, "page_count": 100}
        return measure_processor(**sizes, cached_tuples=cached_tuples).front_probe

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
