"""Page popularity told in classes is that of all pages one by one."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.joins.semi_stream.theory.popularity import (
    CountedStream,
    PagePopularity,
    ZipfStream,
    zipf_page_popularity,
)
from spark_jobs.workload.zipf import ZipfDistribution

EXPONENTS = [0, 0.5, 1, 1.2]


def by_pages(weights: np.ndarray, page_rows: int) -> PagePopularity:
    return PagePopularity.of(np.bincount(np.arange(len(weights)) // page_rows, weights))


def moments(popularity: PagePopularity) -> list[float]:
    p = popularity.probabilities
    return [popularity.sum(p), popularity.mean(p), popularity.mean(p * p), popularity.mean(1 / (1 + 1000 * p))]


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("page_rows", [1, 7, 500])
@pytest.mark.parametrize("cached", [0, 300])
def test_sorted_by_rank(exponent: float, page_rows: int, cached: int) -> None:
    weights = ZipfDistribution(30_001, exponent).probabilities()
    weights[:cached] = 0
    popularity = zipf_page_popularity(30_001, exponent, page_rows, shuffled=False, cached_slots=cached)
    assert moments(popularity) == pytest.approx(moments(by_pages(weights, page_rows)), rel=2e-3)
    assert popularity.page_counts.sum() == np.count_nonzero(by_pages_sums(weights, page_rows))


def by_pages_sums(weights: np.ndarray, page_rows: int) -> np.ndarray:
    return np.bincount(np.arange(len(weights)) // page_rows, weights)


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("page_rows", [10, 500])
def test_shuffled(exponent: float, page_rows: int) -> None:
    weights = np.random.default_rng(1).permutation(ZipfDistribution(400_000, exponent).probabilities())
    popularity = zipf_page_popularity(400_000, exponent, page_rows, shuffled=True)
    # Another permutation: where single keys weigh much, chance decides which of them share a page.
    assert moments(popularity) == pytest.approx(moments(by_pages(weights, page_rows)), rel=0.08)


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_large_relation_takes_little_room(shuffled: bool) -> None:
    popularity = zipf_page_popularity(100_000_000, 1.0, 500, shuffled=shuffled)
    assert len(popularity.probabilities) < 10_000
    assert popularity.page_counts.sum() == pytest.approx(200_000)
    assert popularity.sum(popularity.probabilities) == pytest.approx(1)


def test_pages_that_nobody_asks_for_are_left_out() -> None:
    popularity = PagePopularity.of(np.array([3, 0, 1, 0]))
    assert sorted(popularity.probabilities) == pytest.approx([0.25, 0.75])
    assert popularity.page_counts.tolist() == [1, 1]


def test_taking_out_the_hottest_pages() -> None:
    share, others = PagePopularity.of(np.array([4, 2, 2, 1, 1])).without_hottest(2)
    assert share == pytest.approx(0.6)
    assert others.sum(others.probabilities) == pytest.approx(1)
    assert dict(zip(others.probabilities.round(6), others.page_counts, strict=True)) == {0.5: 1, 0.25: 2}


def test_a_counted_stream_knows_what_a_zipf_stream_knows() -> None:
    zipf = ZipfStream(5000, 1.0, shuffled=False)
    counted = CountedStream(ZipfDistribution(5000, 1.0).probabilities())
    assert counted.share_of_hottest(120) == pytest.approx(zipf.share_of_hottest(120))
    assert moments(counted.keys()) == pytest.approx(moments(zipf.keys()), rel=2e-3)
    assert moments(counted.pages(50, 120)) == pytest.approx(moments(zipf.pages(50, 120)), rel=2e-3)
