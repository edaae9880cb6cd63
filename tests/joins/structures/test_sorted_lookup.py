"""Sorted lookups find what numpy finds."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.joins.structures.sorted_lookup import first_positions, overlaps

ENDS = [-(2**63), -(2**63), 2**63 - 1]


@pytest.mark.parametrize("held", [0, 1, 2, 50, 1000])
@pytest.mark.parametrize("asked", [0, 1, 3, 60, 1000])
def test_positions_are_those_of_a_binary_search(held: int, asked: int) -> None:
    randomness = np.random.default_rng(held * 7 + asked)
    for largest in (5, 2000, 2**62):
        values = np.sort(np.concatenate((randomness.integers(-largest, largest, held), ENDS[: held % 4])))
        wanted = np.sort(np.concatenate((randomness.integers(-largest, largest, asked), ENDS[: asked % 4])))
        assert first_positions(values, wanted).tolist() == np.searchsorted(values, wanted).tolist()


@pytest.mark.parametrize("longest", [0, 3, 400])
@pytest.mark.parametrize("asked", [0, 1, 300])
def test_overlaps_are_those_of_every_pair(asked: int, longest: int) -> None:
    randomness = np.random.default_rng(asked + longest)
    keys = np.sort(randomness.integers(-500, 500, 200))
    ends = keys + randomness.integers(0, longest + 1, 200)
    lows = np.sort(np.concatenate((randomness.integers(-600, 600, asked), ENDS[:2])))
    lasts = np.maximum(lows, lows + randomness.integers(0, 50, len(lows)))
    plain = [(i, j) for i in range(len(lows)) for j in range(200) if keys[j] <= lasts[i] and lows[i] <= ends[j]]
    found = overlaps(keys, ends, lows, lasts, longest)
    assert list(zip(*(each.tolist() for each in found), strict=True)) == plain
