"""Predicted service rates, processing times and hit ratios against measured ones, for all algorithms."""

from __future__ import annotations

import pytest

from spark_jobs.experiments.virtual_relation import HARD_DISK, SOLID_STATE_DISK, DiskProfile
from spark_jobs.joins.semi_stream import ALGORITHMS, create
from spark_jobs.joins.semi_stream.front_stage import FrontStage
from spark_jobs.joins.semi_stream.theory.choice import PREDICTABLE
from spark_jobs.joins.semi_stream.theory.front_stage_model import front_stage_slots, learned_hits
from spark_jobs.joins.semi_stream.theory.mesh_join_model import mesh_join_waiting_seconds
from spark_jobs.joins.semi_stream.theory.popularity import ZipfStream
from spark_jobs.joins.semi_stream.theory.prediction import CACHED, predict
from tests.joins.semi_stream.theory.virtual_run import Scene

BY_PAGES = [name for name in PREDICTABLE if ALGORITHMS[name].reads_pages]
BY_INDEX = [name for name in PREDICTABLE if not ALGORITHMS[name].reads_pages]


def rates(scene: Scene, algorithm: str) -> tuple[float, float]:
    predicted = predict(algorithm, scene.setting, scene.stream)
    # What the back stage gets has to come many times; a front stage learns for long, and slots of rare pages fill late.
    times = 1 / (1 - predicted.hit_ratio)
    warm_up = 10 * times if algorithm.startswith(CACHED) else 20 if algorithm == "partition_wait_join" else 6
    measured = scene.measured(algorithm, warm_up=warm_up, measured=12 * times)
    assert predicted.hit_ratio == pytest.approx(measured.hit_ratio, abs=0.03)
    return measured.service_rate, predicted.service_rate


@pytest.mark.parametrize("algorithm", BY_PAGES)
def test_service_rate(algorithm: str) -> None:
    measured, predicted = rates(Scene(100_000, 1, True, 1000, 0.1), algorithm)
    assert predicted == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize(
    "algorithm", ["hybrid_join", "cached_hybrid_join", "early_release_mesh_join", "partition_wait_join"]
)
def test_service_rate_with_r_sorted_by_popularity(algorithm: str) -> None:
    measured, predicted = rates(Scene(100_000, 1, False, 100, 0.02), algorithm)
    assert predicted == pytest.approx(measured, rel=0.1)


def test_the_partition_based_join_is_fast_until_the_slots_of_rare_pages_have_filled() -> None:
    scene = Scene(50_000, 1.2, False, 100, 0.1)
    predicted = predict("partition_wait_join", scene.setting, scene.stream).service_rate
    first, settled = (scene.measured("partition_wait_join", warm_up=times).service_rate for times in (2, 20))
    assert first > 2 * settled
    assert predicted == pytest.approx(settled, rel=0.1)


@pytest.mark.parametrize("algorithm", [name for name in BY_INDEX if not name.startswith(CACHED)])
def test_service_rate_of_index_nested_loops(algorithm: str) -> None:
    scene = Scene(50_000, 1, True, 100, 0.05)
    measured = scene.measured(algorithm, warm_up=0.1, measured=1).service_rate
    assert predict(algorithm, scene.setting, scene.stream).service_rate == pytest.approx(measured, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("profile", [HARD_DISK, SOLID_STATE_DISK], ids=lambda profile: profile.name)
@pytest.mark.parametrize(("memory_share", "page_rows"), [(0.01, 100), (0.1, 1000)])
@pytest.mark.parametrize(
    ("exponent", "shuffled"), [(0, True), (0.5, True), (0.5, False), (1, True), (1, False), (1.2, True), (1.2, False)]
)
@pytest.mark.parametrize("algorithm", [name for name in BY_PAGES if name != "semi_streamed_index_join"])
def test_service_rate_everywhere(
    algorithm: str, exponent: float, shuffled: bool, memory_share: float, page_rows: int, profile: DiskProfile
) -> None:
    measured, predicted = rates(Scene(200_000, exponent, shuffled, page_rows, memory_share, profile), algorithm)
    assert predicted == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("algorithm", ["hybrid_join", "mesh_join", "early_release_mesh_join", "cached_hybrid_join"])
def test_processing_time(algorithm: str) -> None:
    scene = Scene(100_000, 1, True, 500, 0.05)
    measured = scene.measured(algorithm, warm_up=16).mean_processing
    assert predict(algorithm, scene.setting, scene.stream).processing_seconds == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("algorithm", BY_PAGES)
@pytest.mark.parametrize("memory_share", [0.01, 0.1])
def test_memory_holds_as_many_tuples_as_predicted(algorithm: str, memory_share: float) -> None:
    scene = Scene(200_000, 1, True, 100, memory_share)
    run = scene.run(lambda relation: create(algorithm, relation, scene.memory_bytes))
    capacity = getattr(run.join, "back_stage", run.join).capacity
    assert predict(algorithm, scene.setting, scene.stream).waiting_tuples == pytest.approx(capacity, rel=0.07)


@pytest.mark.parametrize("tuple_bytes", [40, 120, 400])
def test_a_front_stage_holds_as_many_tuples_as_predicted(tuple_bytes: int) -> None:
    for memory in (100_000, 3_000_000, 50_000_000):
        assert front_stage_slots(memory, tuple_bytes) == pytest.approx(
            FrontStage.capacity_within(memory, tuple_bytes), rel=0.15
        )


def test_a_cache_of_a_uniform_stream_finds_its_part_of_r() -> None:
    assert learned_hits(ZipfStream(50_000, 0, True), 500).hit_ratio == pytest.approx(0.01)


def test_a_cache_learns_little_of_little_skew_and_nearly_all_of_much() -> None:
    for exponent, least, most in ((0.5, 0.3, 0.9), (1, 0.95, 1), (1.2, 0.97, 1)):
        stream = ZipfStream(200_000, exponent, True)
        found = learned_hits(stream, 1000).hit_ratio / stream.share_of_hottest(1000)
        assert least < found <= most


def test_a_cache_that_holds_all_of_r_leaves_nothing() -> None:
    assert learned_hits(ZipfStream(100, 1, True), 100).hit_ratio == 1
    assert learned_hits(ZipfStream(100, 1, True), 0).hit_ratio == 0


def test_waiting_time_of_mesh_join() -> None:
    assert mesh_join_waiting_seconds(500, 125) == 4
