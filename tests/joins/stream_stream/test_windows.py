"""Windows make ends from starts (004 §5.1)."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.joins.stream_stream.windows import FixedWindow, SlidingWindow

LAST = 2**63 - 1


def test_in_a_sliding_window_every_tuple_is_valid_for_one_length() -> None:
    assert SlidingWindow(10).ends(np.array([-15, 0, 7])).tolist() == [-5, 10, 17]


def test_in_a_fixed_window_tuples_are_valid_until_the_next_multiple() -> None:
    starts = np.array([-11, -10, -1, 0, 9, 10, 11])
    assert FixedWindow(10).ends(starts).tolist() == [-10, 0, 0, 10, 10, 20, 20]


@pytest.mark.parametrize("window", [SlidingWindow(10), FixedWindow(10)], ids=["sliding", "fixed"])
def test_ends_beyond_the_last_integer_are_the_last_integer(window: SlidingWindow | FixedWindow) -> None:
    assert window.ends(np.array([LAST - 12, LAST - 7, LAST - 1]))[1:].tolist() == [LAST, LAST]


@pytest.mark.parametrize("window", [SlidingWindow(7), FixedWindow(7)], ids=["sliding", "fixed"])
def test_starts_that_never_fall_get_ends_that_never_fall(window: SlidingWindow | FixedWindow) -> None:
    starts = np.sort(np.random.default_rng(1).integers(-100, 100, 500))
    ends = window.ends(starts)
    assert (ends > starts).all()
    assert (np.diff(ends) >= 0).all()


@pytest.mark.parametrize("window", [SlidingWindow, FixedWindow])
def test_a_window_has_a_length(window: type[SlidingWindow] | type[FixedWindow]) -> None:
    with pytest.raises(ValueError, match="from 1 to"):
        window(0)
