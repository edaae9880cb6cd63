"""Roots of increasing functions are found between two bounds."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.joins.semi_stream.theory.root import increasing_root


@pytest.mark.parametrize("power", [1, 3, 9])
def test_smooth_functions(power: int) -> None:
    assert increasing_root(lambda x: x**power - 5.0, 0.0, 1e6) == pytest.approx(5 ** (1 / power), rel=1e-6)


def test_a_step() -> None:
    assert increasing_root(lambda x: float(np.floor(x)) - 6.5, 0.0, 100.0) == pytest.approx(7)


def test_where_there_is_none_between_the_bounds_the_nearer_one() -> None:
    assert increasing_root(lambda x: x + 1, 0.0, 5.0) == 0
    assert increasing_root(lambda x: x - 9, 0.0, 5.0) == 5
