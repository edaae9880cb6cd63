"""Which groups of runs are merged next."""

from __future__ import annotations

import pytest

from spark_jobs.joins.stream_stream.merge_strategies import (
    Greedy,
    LoadFollowing,
    MaxFanIn,
    Waiting,
    last_span,
    level_of,
)


def waiting(*levels: int, arrived: int = 0) -> Waiting:
    return Waiting(levels, fan_in=3, inner_fan_in=4, arrived=arrived)


@pytest.mark.parametrize(
    ("levels", "span"),
    [
        ((), None),
        ((0, 0), None),
        ((0, 0, 0), (0, 3)),
        ((0, 0, 0, 0), (0, 3)),
        # Where the oldest takes no part more go at once.
        ((1, 0, 0, 0), None),
        ((1, 0, 0, 0, 0), (1, 4)),
        # The oldest has lost tuples: it goes with larger ones.
        ((0, 1, 1), (0, 3)),
        # Higher levels first.
        ((1, 1, 1, 0, 0, 0, 0), (0, 3)),
        ((2, 1, 1, 1, 1, 0, 0, 0, 0), (1, 4)),
    ],
)
def test_max_fan_in_waits_for_a_full_fan_in_of_one_level(levels: tuple[int, ...], span: tuple[int, int]) -> None:
    assert MaxFanIn().choose(waiting(*levels)) == span


def test_greedy_merges_what_there_is_from_the_oldest_on() -> None:
    assert Greedy().choose(waiting(2)) is None
    assert Greedy().choose(waiting(2, 0)) == (0, 2)
    assert Greedy().choose(waiting(2, 1, 0, 0)) == (0, 3)


def test_load_following_is_the_one_in_high_load_and_the_other_in_low() -> None:
    strategy = LoadFollowing(high_load=100)
    assert strategy.choose(waiting(0, 0, arrived=99)) == (0, 2)
    assert strategy.choose(waiting(0, 0, arrived=100)) is None
    assert strategy.choose(waiting(0, 0, 0, arrived=100)) == (0, 3)


def test_a_group_is_a_level_up_when_it_is_nearly_as_long_as_the_fan_in_makes_it() -> None:
    assert [level_of(tuples, 100, 5) for tuples in (1, 100, 399, 400, 500, 1999, 2000)] == [0, 0, 0, 1, 1, 1, 2]


def test_at_the_end_the_cheapest_neighbours_go_first_until_all_fit() -> None:
    assert last_span([9, 9, 9], 3, 5) == (0, 3)
    assert last_span([9, 1, 8, 1, 1, 8], 3, 5) == (1, 4)
    assert last_span([9, 1, 8, 1, 1, 8], 5, 5) == (3, 2)
