"""The back stage predicted to be faster is chosen for a batch, and says why."""

from __future__ import annotations

import pytest

from spark_jobs.joins.semi_stream import ALGORITHMS
from spark_jobs.joins.semi_stream.theory.batch_choice import AccessCosts, choose_back_stage

COSTS = AccessCosts(page_read_seconds=0.00023, lookup_seconds_per_key=1 / 128_000, lookup_overhead_seconds=0.0003)


def test_few_keys_on_many_pages_are_looked_up() -> None:
    choice = choose_back_stage(100, 100, COSTS)
    assert choice.algorithm == "batched_index_nested_loop"


def test_many_keys_on_few_pages_are_joined_by_page() -> None:
    choice = choose_back_stage(100_000, 1000, COSTS)
    assert choice.algorithm == "hybrid_join"
    assert choice.predicted_seconds == pytest.approx(
        {"hybrid_join": 0.23, "batched_index_nested_loop": 0.0003 + 99_999 / 128_000}
    )


def test_pages_that_are_cheap_in_a_row_are_scanned() -> None:
    costs = AccessCosts(0.00023, 1 / 128_000, 0.0003, scan_seconds_per_page=0.00006)
    choice = choose_back_stage(100_000, 900, costs, page_count=1000, stream_tuples=200_000)
    assert choice.algorithm == "mesh_join"
    assert choice.predicted_seconds["mesh_join"] == pytest.approx(0.06)
    assert choice.predicted_seconds["index_nested_loop"] == pytest.approx(60)


def test_without_cheaper_scans_reading_what_is_waited_for_is_never_worse() -> None:
    choice = choose_back_stage(100_000, 1000, COSTS, page_count=1000)
    assert choice.algorithm == "hybrid_join"
    assert choice.predicted_seconds["mesh_join"] == choice.predicted_seconds["hybrid_join"]


def test_the_reason_names_all_with_their_predicted_times() -> None:
    assert choose_back_stage(100_000, 1000, COSTS, stream_tuples=150_000, page_count=2000).reason == (
        "hybrid_join, because reading 1,000 pages takes about 230.0 ms, "
        "scanning 2,000 pages (mesh_join) about 460.0 ms, "
        "looking 100,000 keys up (batched_index_nested_loop) about 781.5 ms "
        "and looking 150,000 tuples up one by one (index_nested_loop) about 45,000.0 ms"
    )
    assert choose_back_stage(100_000, 1000, COSTS).reason == (
        "hybrid_join, because reading 1,000 pages takes about 230.0 ms, "
        "looking 100,000 keys up (batched_index_nested_loop) about 781.5 ms"
    )


def test_one_tuple_is_looked_up_as_a_batch_of_one() -> None:
    assert choose_back_stage(1, 1, AccessCosts(1.0, 0.1, 0.1), stream_tuples=1).algorithm == "batched_index_nested_loop"


def test_nothing_to_do_costs_nothing() -> None:
    assert set(choose_back_stage(0, 0, COSTS, stream_tuples=0, page_count=9).predicted_seconds.values()) == {0}


def test_what_it_chooses_between_is_in_the_catalogue() -> None:
    considered = choose_back_stage(1, 1, COSTS, stream_tuples=1, page_count=1).predicted_seconds.keys()
    assert considered - {"mesh_join"} <= ALGORITHMS.keys()
