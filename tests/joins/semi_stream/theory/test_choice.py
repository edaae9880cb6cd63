"""The algorithm chosen for a stream fits it, and the reason names the others with what they would give."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.experiments.virtual_relation import SOLID_STATE_DISK
from spark_jobs.joins.semi_stream.theory.choice import PREDICTABLE, choose
from spark_jobs.joins.semi_stream.theory.setting import DiskCosts
from tests.joins.semi_stream.theory.virtual_run import Scene

SKEWED = Scene(200_000, 1.2, True, 500, 0.05)
UNIFORM = Scene(200_000, 0, True, 500, 0.05)


def test_a_skewed_stream_gets_a_front_stage_of_the_best_size() -> None:
    choice = choose(SKEWED.setting, SKEWED.stream)
    assert choice.algorithm.startswith("cached_")
    assert choice.front_share == pytest.approx(choice.predictions[choice.algorithm].front_share)
    assert 0.05 < choice.front_share < 0.5


def test_a_uniform_stream_gets_none() -> None:
    choice = choose(UNIFORM.setting, UNIFORM.stream)
    assert not choice.algorithm.startswith("cached_")
    assert choice.front_share == 0


def test_the_best_prediction_is_chosen_and_all_are_told() -> None:
    choice = choose(SKEWED.setting, SKEWED.stream)
    assert set(choice.predictions) == set(PREDICTABLE)
    assert choice.service_rate == max(prediction.service_rate for prediction in choice.predictions.values())
    for name, prediction in choice.predictions.items():
        assert name in choice.reason
        assert f"{prediction.service_rate:,.0f}" in choice.reason
    assert "\n" not in choice.reason


def test_where_lookups_are_cheap_and_pages_dear_keys_are_looked_up() -> None:
    disk = DiskCosts(0.01, 1e6, 1e-4, 1e-6)
    choice = choose(replace(UNIFORM.setting, disk=disk, memory_bytes=200_000), UNIFORM.stream)
    assert choice.algorithm == "batched_index_nested_loop"


def test_a_slow_stream_gets_what_settles_soonest() -> None:
    scene = replace(SKEWED, profile=SOLID_STATE_DISK)
    fast = choose(scene.setting, scene.stream)
    slow = choose(scene.setting, scene.stream, arrival_rate=500)
    assert "index_nested_loop" in slow.algorithm
    assert slow.service_rate < fast.service_rate
    assert "at 500 tuples/s" in slow.reason


def test_a_stream_too_fast_for_all_gets_the_fastest() -> None:
    assert choose(SKEWED.setting, SKEWED.stream, arrival_rate=1e9) == choose(SKEWED.setting, SKEWED.stream)


def test_those_that_do_not_keep_up_are_told_by_their_rates() -> None:
    choice = choose(SKEWED.setting, SKEWED.stream, arrival_rate=2000)
    assert "index_nested_loop only 110 tuples/s" in choice.reason


def test_what_memory_does_not_allow_is_left_out() -> None:
    tight = replace(UNIFORM.setting, memory_bytes=66_000)
    assert "cached_hybrid_join" not in choose(tight, UNIFORM.stream).predictions
    with pytest.raises(MemoryBudgetError):
        choose(replace(UNIFORM.setting, memory_bytes=1000), UNIFORM.stream)
