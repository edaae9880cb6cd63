"""Seek and throughput from measured page reads."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.joins.semi_stream.theory.setting import DiskCosts, fit_page_reads

SIZES = [4_096, 16_384, 65_536, 262_144, 1_048_576]


def test_a_straight_line_is_found_again() -> None:
    seek, rate = fit_page_reads(SIZES, [9e-3 + size / 70e6 for size in SIZES])
    assert seek == pytest.approx(9e-3)
    assert rate == pytest.approx(70e6)


def test_noise_moves_the_line_little() -> None:
    random = np.random.default_rng(1)
    seek, rate = fit_page_reads(SIZES, [(5e-5 + size / 1e9) * random.uniform(0.9, 1.1) for size in SIZES])
    assert seek == pytest.approx(5e-5, rel=0.15)
    assert rate == pytest.approx(1e9, rel=0.15)


@pytest.mark.parametrize(
    ("seconds", "seek"),
    [([0.2, 0.2], 0.2), ([0.3, 0.2], 3 / 13), ([0.1, 0.9], 0.0)],
    ids=["equally dear", "large pages cheaper", "dearer than in proportion"],
)
def test_neither_seek_nor_transfer_is_negative(seconds: list[float], seek: float) -> None:
    found, rate = fit_page_reads([1000, 2000], seconds)
    assert found == pytest.approx(seek)
    assert rate > 0


def test_one_page_size_alone_is_all_seek() -> None:
    assert fit_page_reads([500], [0.01])[0] == pytest.approx(0.01)


def test_measured_sizes_cost_what_was_measured_and_more_never_costs_less() -> None:
    costs = DiskCosts(0.001, 1e6, 0.001, 0.0005, page_reads=((1_000, 0.004), (2_000, 0.003), (4_000, 0.009)))
    assert costs.page_read_seconds(2_000) == 0.003
    assert costs.page_read_seconds(3_000) == pytest.approx(0.006)
    assert costs.page_read_seconds(5_000) == pytest.approx(0.010)
    seconds = [costs.page_read_seconds(size) for size in range(0, 6_000, 50)]
    assert seconds == sorted(seconds)


def test_without_measured_sizes_a_page_costs_seek_and_transfer() -> None:
    costs = DiskCosts(0.001, 1e6, 0.002, 0.0005)
    assert costs.page_read_seconds(4_000) == pytest.approx(0.005)
    assert costs.lookup_seconds(1) == 0.002
    assert costs.lookup_seconds(5) == pytest.approx(0.004)
