"""The back stage predicted to be faster is chosen, and says why."""

from __future__ import annotations

import pytest

from spark_jobs.joins.semi_stream import ALGORITHMS
from spark_jobs.joins.semi_stream.cost_model import AccessCosts, choose_back_stage

COSTS = AccessCosts(page_read_seconds=0.00023, lookup_seconds_per_key=1 / 128_000, lookup_overhead_seconds=0.0003)


def test_few_keys_on_many_pages_are_looked_up() -> None:
    choice = choose_back_stage(100, 100, COSTS)
    assert choice.algorithm == "batched_index_nested_loop"


def test_many_keys_on_few_pages_are_joined_by_page() -> None:
    choice = choose_back_stage(100_000, 1000, COSTS)
    assert choice.algorithm == "hybrid_join"
    assert choice.predicted_seconds == pytest.approx(
        {"hybrid_join": 0.23, "batched_index_nested_loop": 0.0003 + 100_000 / 128_000}
    )


def test_the_reason_names_both_with_their_predicted_times() -> None:
    assert choose_back_stage(100_000, 1000, COSTS).reason == (
        "hybrid_join, because reading 1,000 pages takes about 230.0 ms "
        "and looking 100,000 keys up (batched_index_nested_loop) about 781.5 ms"
    )


def test_nothing_to_do_costs_nothing() -> None:
    assert choose_back_stage(0, 0, COSTS).predicted_seconds == {"hybrid_join": 0, "batched_index_nested_loop": 0}


def test_what_it_chooses_between_is_in_the_catalogue() -> None:
    assert choose_back_stage(1, 1, COSTS).predicted_seconds.keys() <= ALGORITHMS.keys()
