import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.workload.bursts import ArrivalSchedule, bursty_arrivals, steady_arrivals

STEPS = 50_000


def counts(arrivals: Iterator[tuple[float, int]], steps: int = STEPS) -> npt.NDArray[np.float64]:
    return np.array([count for _, count in itertools.islice(arrivals, steps)], dtype=np.float64)


def hurst_exponent(series: npt.NDArray[np.float64]) -> float:
    """From the variance-time plot: the variance of means over m steps falls as m^(2H - 2)."""
    spans = 2 ** np.arange(8)
    variances = [series[: len(series) // m * m].reshape(-1, m).mean(axis=1).var() for m in spans]
    slope, _ = np.polyfit(np.log(spans), np.log(variances), 1)
    return 1 + slope / 2


@pytest.mark.parametrize("seed", range(3))
def test_bursts_are_self_similar_and_poisson_arrivals_are_not(seed: int) -> None:
    poisson = np.random.default_rng(seed).poisson(20, STEPS).astype(np.float64)
    assert hurst_exponent(poisson) == pytest.approx(0.5, abs=0.05)
    assert hurst_exponent(counts(bursty_arrivals(200, seed=seed))) > 0.8


def test_bursts_outlast_averaging() -> None:
    seconds = counts(bursty_arrivals(200, seed=1)).reshape(-1, 10).sum(axis=1)
    assert seconds.min() < 0.1 * 200
    assert seconds.max() > 1.8 * 200


@pytest.mark.parametrize("rate", [0.7, 25, 200, 50_000])
def test_mean_rate_is_the_rate_asked_for(rate: float) -> None:
    assert counts(bursty_arrivals(rate, seed=2)).sum() / (STEPS * 0.1) == pytest.approx(rate, rel=0.05)
    assert counts(steady_arrivals(rate)).sum() / (STEPS * 0.1) == pytest.approx(rate, rel=0.001)


def test_the_mean_is_right_from_the_first_step() -> None:
    first_steps = [counts(bursty_arrivals(200, seed=seed), 10).sum() for seed in range(2000)]
    assert np.mean(first_steps) == pytest.approx(200, rel=0.05)


def test_equal_seeds_give_equal_arrivals() -> None:
    first, same, other = (list(itertools.islice(bursty_arrivals(200, seed=seed), 500)) for seed in (7, 7, 8))
    assert first == same != other


def test_steady_arrivals_differ_by_one_at_most() -> None:
    assert set(counts(steady_arrivals(125))) == {12, 13}


@given(waits=st.lists(st.floats(0.001, 3), min_size=1, max_size=30))
def test_every_arrival_is_due_once_however_late_it_is_asked_for(waits: list[float]) -> None:
    asked = list(itertools.accumulate(waits))
    schedule = ArrivalSchedule(bursty_arrivals(50, seed=1))
    handed_out = [schedule.due(elapsed) for elapsed in asked]
    for moments, earliest, latest in zip(handed_out, [0.0, *asked], asked, strict=False):
        assert ((moments > earliest) & (moments <= latest)).all()
    at_once = ArrivalSchedule(bursty_arrivals(50, seed=1)).due(asked[-1])
    assert np.concatenate(handed_out).tolist() == at_once.tolist()
    assert (np.diff(at_once) > 0).all()


def test_all_of_a_step_is_due_at_its_end() -> None:
    assert len(ArrivalSchedule(steady_arrivals(100)).due(10.0)) == 1000


@pytest.mark.parametrize("count", [1, 7, 250])
def test_the_schedule_tells_when_so_many_more_will_be_due(count: int) -> None:
    schedule = ArrivalSchedule(bursty_arrivals(50, seed=2))
    schedule.due(3.0)
    moment = schedule.next_due(count)
    assert moment > 3.0
    assert len(schedule.due(moment)) == count
