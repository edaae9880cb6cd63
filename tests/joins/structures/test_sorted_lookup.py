"""Sorted lookups find what numpy finds."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.joins.structures.sorted_lookup import first_positions

ENDS = [-(2**63), -(2**63), 2**63 - 1]


@pytest.mark.parametrize("held", [0, 1, 2, 50, 1000])
@pytest.mark.parametrize("asked", [0, 1, 3, 60, 1000])
def test_positions_are_those_of_a_binary_search(held: int, asked: int) -> None:
    randomness = np.random.default_rng(held * 7 + asked)
    for largest in (5, 2000, 2**62):
        values = np.sort(np.concatenate((randomness.integers(-largest, largest, held), ENDS[: held % 4])))
        wanted = np.sort(np.concatenate((randomness.integers(-largest, largest, asked), ENDS[: asked % 4])))
        assert first_positions(values, wanted).tolist() == np.searchsorted(values, wanted).tolist()
