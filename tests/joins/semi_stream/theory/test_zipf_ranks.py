"""The theory's Zipf is the one that the workloads draw from."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.joins.semi_stream.theory.popularity import share_of_first
from spark_jobs.workload.zipf import ZipfDistribution


@pytest.mark.parametrize("exponent", [0, 0.5, 0.999999, 1, 1.2, 3])
def test_shares_are_those_of_the_stream_generator(exponent: float) -> None:
    size = 1000
    expected = np.cumsum(ZipfDistribution(size, exponent).probabilities())
    assert share_of_first(np.arange(1.0, size + 1), size, exponent) == pytest.approx(expected)


def test_nothing_and_all() -> None:
    assert share_of_first(0, 50, 1.0) == 0
    assert share_of_first(50, 50, 1.0) == pytest.approx(1)
