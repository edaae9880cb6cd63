import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.errors import WorkloadError
from spark_jobs.workload.zipf import ZipfDistribution, ZipfKeys

EXPONENTS = [0.0, 0.5, 1.0, 1.3, 2.0]


def integral_probabilities(size: int, exponent: float) -> list[float]:
    """The share of the integral of x^-exponent that lies between each rank and the next, by the schoolbook."""

    def integral(x: float) -> float:
        return math.log(x) if exponent == 1 else x ** (1 - exponent) / (1 - exponent)

    whole = integral(size + 1) - integral(1)
    return [(integral(rank + 1) - integral(rank)) / whole for rank in range(1, size + 1)]


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_probabilities_are_shares_of_the_integral(exponent: float) -> None:
    assert ZipfDistribution(50, exponent).probabilities() == pytest.approx(integral_probabilities(50, exponent))


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_ranks_come_as_often_as_their_probability_says(exponent: float) -> None:
    distribution = ZipfDistribution(1000, exponent)
    drawn = distribution.ranks(np.random.default_rng(0).random(400_000))
    shares = np.bincount(drawn, minlength=1001)[1:] / len(drawn)
    assert shares == pytest.approx(distribution.probabilities(), abs=0.002)


def test_exponent_one_gives_the_80_20_rule() -> None:
    assert ZipfDistribution(100_000, 1.0).probabilities()[:20_000].sum() == pytest.approx(0.86, abs=0.01)


def test_exponents_next_to_one_agree_with_one() -> None:
    uniform = np.random.default_rng(0).random(10_000)
    exact = ZipfDistribution(10**6, 1.0).ranks(uniform)
    for exponent in (1 - 1e-13, 1 + 1e-13, 1 - 1e-10):
        assert np.mean(ZipfDistribution(10**6, exponent).ranks(uniform) == exact) > 0.999


@given(
    size=st.integers(1, 10**12),
    exponent=st.floats(0, 60),
    uniform=st.floats(0, 1, exclude_max=True),
)
def test_ranks_stay_in_range(size: int, exponent: float, uniform: float) -> None:
    (rank,) = ZipfDistribution(size, exponent).ranks(np.array([uniform]))
    assert 1 <= rank <= size


@given(exponent=st.floats(0, 5), uniform=st.lists(st.floats(0, 1, exclude_max=True), min_size=2))
def test_a_larger_number_gives_no_smaller_rank(exponent: float, uniform: list[float]) -> None:
    ranks = ZipfDistribution(1000, exponent).ranks(np.sort(np.array(uniform)))
    assert (np.diff(ranks) >= 0).all()


@pytest.mark.parametrize(("size", "exponent"), [(0, 1.0), (10, -0.5), (10, math.inf), (10, math.nan)])
def test_values_out_of_range_are_refused(size: int, exponent: float) -> None:
    with pytest.raises(WorkloadError):
        ZipfDistribution(size, exponent)


def test_equal_seeds_draw_equal_keys() -> None:
    keys = np.arange(500)
    first, second = (ZipfKeys(keys, 1.0, shuffle_seed=[3]).draw(1000, np.random.default_rng(5)) for _ in range(2))
    assert (first == second).all()


def test_unshuffled_popularity_follows_the_order_of_keys() -> None:
    drawn = ZipfKeys(np.arange(10, 20), 1.0, shuffle_seed=None).draw(100_000, np.random.default_rng(0))
    assert (np.diff(np.bincount(drawn)[10:]) < 0).all()


def test_shuffled_popularity_has_nothing_to_do_with_the_order_of_keys() -> None:
    keys = np.arange(2000)
    drawn = ZipfKeys(keys, 1.0, shuffle_seed=[1]).draw(200_000, np.random.default_rng(0))
    assert abs(np.corrcoef(keys, np.bincount(drawn, minlength=2000))[0, 1]) < 0.1
    assert set(drawn) <= set(keys)
