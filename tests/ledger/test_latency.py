"""Latency histograms: every latency in its bucket, sums of histograms, percentiles within a bucket."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.ledger.latency import BUCKETS, RATIO, UPPER_BOUNDS, histogram, percentile, total


def test_buckets_go_from_a_millisecond_to_a_day_in_steps_of_a_tenth_at_most() -> None:
    assert UPPER_BOUNDS[0] == 1_000
    assert UPPER_BOUNDS[-1] >= 86_400_000_000 > UPPER_BOUNDS[-2]
    assert RATIO <= 1.1


@given(st.lists(st.integers(-(2**62), 2**62) | st.integers(0, 10**11), max_size=50))
def test_a_latency_is_counted_in_its_bucket(latencies: list[int]) -> None:
    expected = np.bincount(np.searchsorted(UPPER_BOUNDS, latencies), minlength=BUCKETS)
    assert histogram(np.array(latencies, np.int64)).tolist() == expected.tolist()


def test_bounds_belong_to_the_bucket_below() -> None:
    bounds = np.floor(UPPER_BOUNDS).astype(np.int64)
    for latencies in (bounds, bounds + 1, bounds - 1):
        expected = np.bincount(np.searchsorted(UPPER_BOUNDS, latencies), minlength=BUCKETS)
        assert histogram(latencies).tolist() == expected.tolist()


def test_histograms_add_up() -> None:
    first, second = np.array([1_500, 10**7]), np.array([10**12])
    assert total([histogram(first), None, histogram(second).tolist()]).tolist() == (
        histogram(np.concatenate([first, second])).tolist()
    )


@pytest.mark.parametrize("fraction", [0.0, 0.5, 0.9, 0.99, 1.0])
@given(seconds=st.lists(st.floats(0.0011, 80_000), min_size=1, max_size=200))
def test_percentiles_are_right_within_a_bucket(fraction: float, seconds: list[float]) -> None:
    latencies = np.sort((np.array(seconds) * 1e6).astype(np.int64))
    exact = latencies[max(int(np.ceil(fraction * len(latencies))), 1) - 1] / 1e6
    found = percentile(histogram(latencies), fraction)
    assert found is not None
    assert exact / RATIO * 0.999 <= found <= exact * RATIO * 1.001


def test_percentiles_of_nothing_and_of_the_extremes() -> None:
    assert percentile(None, 0.5) is None
    assert percentile([0] * BUCKETS, 0.5) is None
    assert percentile(histogram(np.array([0, 5])), 0.99) == pytest.approx(0.001)
    for beyond in (9 * 10**10, 10**15):
        assert percentile(histogram(np.array([beyond])), 0.5) == 86_400, "a day, whatever it is: it was not counted"
