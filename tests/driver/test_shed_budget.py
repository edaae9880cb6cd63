"""Batches of an overloaded stream are kept so short that what they load is fresh."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from spark_jobs.driver.shed_budget import ShedBudget

TARGET = timedelta(seconds=5)


class OverloadedStream:
    """A stream whose back stages use all the time that they are given.

    Args:
        budget: gives it.
        lookups: back stages of a batch.
    """

    PAUSE = 0.2
    LANDING = 0.5

    def __init__(self, budget: ShedBudget, lookups: int = 1) -> None:
        self._budget = budget
        self._lookups = lookups
        self._former = 0.0
        self.back_stages: list[float] = []

    def batch(self, others: float, reading: float = 0.05) -> float:
        """Do a batch whose back stages end up to one read late; the age of its oldest tuple at the commit."""
        back_stages = self._lookups * self._budget.back_stage_seconds + reading
        seconds = others + back_stages
        self._budget.observe(seconds, back_stages)
        age = self.LANDING + self._former + self.PAUSE + seconds
        self._former = seconds
        self.back_stages.append(back_stages)
        return age


@pytest.mark.parametrize("lookups", [1, 2, 3])
@pytest.mark.parametrize("others", [0.2, 0.8, 1.5])
def test_loaded_tuples_are_fresh_whatever_the_rest_of_a_batch_takes(others: float, lookups: int) -> None:
    stream = OverloadedStream(ShedBudget(TARGET, lookups), lookups)
    ages = [stream.batch(others) for _ in range(20)]
    assert max(ages[3:]) <= TARGET.total_seconds()


def test_what_the_rest_leaves_is_used() -> None:
    stream = OverloadedStream(ShedBudget(TARGET, 1))
    for _ in range(10):
        stream.batch(others=0.2)
    with_little = stream.back_stages[-1]
    for _ in range(10):
        stream.batch(others=1.2)
    assert with_little - stream.back_stages[-1] == pytest.approx(1.0)
    assert with_little > 1.5


def test_batches_of_changing_length_count_by_the_slowest() -> None:
    random = np.random.default_rng(4)
    stream = OverloadedStream(ShedBudget(TARGET, 2), lookups=2)
    ages = [stream.batch(others) for others in random.uniform(0.4, 1.2, 500)]
    assert np.quantile(ages, 0.99) <= TARGET.total_seconds()


def test_one_slow_batch_is_forgotten() -> None:
    stream = OverloadedStream(ShedBudget(TARGET, 1))
    for others in [0.3] * 10 + [60.0] + [0.3] * 10:
        stream.batch(others)
    assert stream.back_stages[-1] == pytest.approx(stream.back_stages[9])


def test_back_stages_always_get_time_to_read_something() -> None:
    budget = ShedBudget(TARGET, lookups=2)
    for others, seconds in [(1.9, 0.38), (3.0, 0.6), (30.0, 0.875)]:
        budget.observe(seconds=others + 1.0, back_stages=1.0)
        assert budget.back_stage_seconds == pytest.approx(seconds / 2)


def test_a_pipeline_without_lookups_has_a_budget_too() -> None:
    assert ShedBudget(TARGET, lookups=0).back_stage_seconds > 0
