"""What the papers join: the popularity that a workload promises is the one that its stream has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from spark_jobs.experiments.semi_stream.workloads import (
    LOCAL_INTERVALS,
    Workload,
    temporal_locality,
    tpch_orders,
    weather,
    zipf,
)
from spark_jobs.settings import Home
from spark_jobs.workload.tpch_files import generate_tables

DRAWN = 200_000


def drawn(workload: Workload, seed: int = 1, count: int = DRAWN) -> np.ndarray:
    return workload.stream(seed=seed)(count)


@pytest.mark.parametrize(
    "workload",
    [
        zipf(10_000, 0.0, sorted_by_rank=True),
        zipf(10_000, 0.5, sorted_by_rank=False),
        zipf(10_000, 1.2, sorted_by_rank=True),
        temporal_locality(10_000, 4, DRAWN // LOCAL_INTERVALS),
        tpch_orders(10_000),
        weather(200_000),
    ],
    ids=lambda workload: workload.name,
)
def test_the_stream_has_the_popularity_that_the_models_are_told(workload: Workload) -> None:
    keys = drawn(workload)
    assert keys.dtype == np.int64
    assert keys.min() >= 0
    assert keys.max() < workload.key_count
    popularity = workload.popularity()
    counts = np.sort(np.bincount(keys, minlength=workload.key_count))[::-1]
    # Among keys that are drawn rarely, those that happen to come first are more than their share.
    for hottest in (10, 100):
        expected = popularity.share_of_hottest(hottest)
        spread = 4 * np.sqrt(expected / DRAWN) + 0.01
        assert expected - 3 * spread <= counts[:hottest].sum() / DRAWN <= expected + spread + 0.02
    pages = np.bincount(keys // 100, minlength=-(-workload.key_count // 100)) / DRAWN
    modelled = workload.popularity().pages(100, 0)
    assert modelled.probabilities @ modelled.page_counts == pytest.approx(1)
    assert np.square(pages).sum() == pytest.approx(modelled.mean(modelled.probabilities), rel=0.1)


def test_equal_seeds_give_equal_streams() -> None:
    workload = zipf(1000, sorted_by_rank=False)
    assert (drawn(workload, seed=1, count=100) == drawn(workload, seed=1, count=100)).all()
    assert (drawn(workload, seed=1, count=100) != drawn(workload, seed=2, count=100)).any()


def test_sorted_by_rank_means_that_the_first_key_is_most_frequent() -> None:
    sorted_ = np.bincount(drawn(zipf(1000, sorted_by_rank=True)), minlength=1000)
    shuffled = np.bincount(drawn(zipf(1000, sorted_by_rank=False)), minlength=1000)
    assert sorted_.argmax() == 0
    assert sorted(sorted_)[-1] == pytest.approx(sorted(shuffled)[-1], rel=0.05)
    assert shuffled.argmax() != 0


def test_a_local_stream_moves_through_the_domain_and_begins_again() -> None:
    interval = 1000
    workload = temporal_locality(100_000, 2, interval)
    part = workload.key_count // LOCAL_INTERVALS
    parts = drawn(workload, count=interval * (LOCAL_INTERVALS + 1)).reshape(-1, interval) // part
    assert [set(row.tolist()) for row in parts] == [{number} for number in [*range(LOCAL_INTERVALS), 0]]
    assert workload.tuple_bytes == 240
    assert workload.period == interval * LOCAL_INTERVALS


def test_customers_order_as_in_dbgens_data(tmp_path: Path) -> None:
    """The part of the orders that customers 1, 2 and 0 modulo 3 have, and how it spreads among them."""
    folder = generate_tables(Home(tmp_path), 0.01, lambda what, share: None)
    customers = pq.read_metadata(folder / "customer.parquet").num_rows
    dealt = pq.read_table(folder / "orders.parquet", columns=["o_custkey"])["o_custkey"].to_numpy()
    ours = drawn(tpch_orders(customers), count=len(dealt)) + 1
    for keys in (dealt, ours):
        counts = np.bincount(keys, minlength=customers + 1)[1:]
        classes = [counts[remainder::3] for remainder in (0, 1, 2)]
        assert [orders.sum() / len(keys) for orders in classes] == pytest.approx([2 / 3, 1 / 3, 0], abs=0.02)
        # Poisson counts, which come of independent draws: the variance is the mean.
        assert classes[0].var() == pytest.approx(classes[0].mean(), rel=0.2)
        assert classes[1].var() == pytest.approx(classes[1].mean(), rel=0.2)
    assert ours.max() <= customers


def test_a_group_of_cloud_reports_is_as_large_as_the_papers() -> None:
    workload = weather(20_000_000)
    assert workload.tuple_bytes // 128 == 555
    assert workload.relation_bytes == pytest.approx(20e6 * 128, rel=0.001)
