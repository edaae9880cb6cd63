"""Flags that are set count once."""

from __future__ import annotations

import numpy as np

from spark_jobs.joins.structures.flags import set_flags


def test_only_flags_that_were_not_set_are_counted() -> None:
    flags = np.array([False, True, False, False])
    assert set_flags(flags, np.array([0, 1, 0, 3, 3])) == 2
    assert flags.tolist() == [True, True, False, True]
    assert set_flags(flags, np.array([3, 2])) == 1
    assert set_flags(flags, np.empty(0, np.int64)) == 0
