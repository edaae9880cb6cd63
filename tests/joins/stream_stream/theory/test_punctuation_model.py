"""The model of PJoin's state and costs agrees with what the operator keeps, and with a search."""

from __future__ import annotations

import pytest

from spark_jobs.experiments.papers.punctuations.punctuated_run import WINDOW, PunctuatedRun
from spark_jobs.joins.stream_stream.theory.punctuation_model import (
    ProcessorCosts,
    best_threshold,
    cost_a_tuple,
    state_size,
)

COSTS = ProcessorCosts(tuple=100, compare=2, result=5, scan=2, purge=1000)


@pytest.mark.parametrize("intervals", [(40, 40), (10, 20)])
def test_the_state_is_as_large_as_the_model_says(intervals: tuple[float, float]) -> None:
    run = PunctuatedRun(intervals, 4_000, 1, "index").run()
    late = run.samples[len(run.samples) // 2 :]
    measured = sum(sum(sample.state) for sample in late) / len(late)
    expected = sum(state_size(sample.stream_seconds / 2e-3, intervals, WINDOW) for sample in late) / len(late)
    assert measured == pytest.approx(expected, rel=0.25)


def test_a_stream_whose_keys_are_closed_before_its_tuples_come_keeps_none() -> None:
    run = PunctuatedRun((10, 20), 4_000, 1, "index").run()
    assert run.samples[-1].state[1] == 0


@pytest.mark.parametrize(("interval", "buckets"), [(10, 100), (40, 100), (20, 1000)])
def test_the_best_threshold_is_where_the_cost_is_least(interval: float, buckets: int) -> None:
    eager = interval * WINDOW

    def cost(threshold: float) -> float:
        return cost_a_tuple(COSTS, eager, interval, matches=5, buckets=buckets, threshold=threshold)

    best = best_threshold(COSTS, eager, interval, buckets)
    assert cost(best) == pytest.approx(min(cost(threshold) for threshold in range(1, 2000)), rel=0.001)
