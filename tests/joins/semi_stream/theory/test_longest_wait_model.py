"""The model of LongestWaitJoin against it, on counted page loads, and both against HYBRIDJOIN."""

from __future__ import annotations

import pytest

from spark_jobs.experiments.semi_stream.run_measurement import Measurement
from spark_jobs.joins.semi_stream.base import Relation, SemiStreamJoin
from spark_jobs.joins.semi_stream.hybrid_join import HybridJoin
from spark_jobs.joins.semi_stream.longest_wait_join import LongestWaitJoin
from spark_jobs.joins.semi_stream.theory.hybrid_join_model import matches_per_load
from spark_jobs.joins.semi_stream.theory.popularity import zipf_page_popularity
from tests.joins.semi_stream.theory.virtual_run import Scene

ROWS = 200_000
PAGE_ROWS = 200


def measured(scene: Scene, algorithm: type[HybridJoin]) -> tuple[Measurement, int]:
    """The run, and how many tuples memory held."""

    def make(relation: Relation) -> SemiStreamJoin:
        return algorithm(relation, scene.memory_bytes)

    run = scene.run(make)
    assert isinstance(run.join, HybridJoin)
    run.measure(16 * run.join.capacity)
    return run.measure(max(24 * run.join.capacity, 200_000)), run.join.capacity


@pytest.mark.parametrize("memory", [0.02, 0.1])
@pytest.mark.parametrize(("exponent", "shuffled"), [(0, False), (0.5, False), (1, False), (1, True), (1.2, True)])
def test_matches_per_load(exponent: float, shuffled: bool, memory: float) -> None:
    scene = Scene(ROWS, exponent, shuffled, PAGE_ROWS, memory)
    run, capacity = measured(scene, LongestWaitJoin)
    predicted = matches_per_load(scene.stream.pages(PAGE_ROWS, 0), capacity)
    assert predicted == pytest.approx(run.tuples_per_access, rel=0.1)


@pytest.mark.parametrize(
    ("exponent", "shuffled", "gain"), [(0, False, 0.97), (0.5, False, 1.05), (1, True, 1.2), (1, False, 2.5)]
)
def test_settles_more_with_each_page_than_the_oldest_rule(exponent: float, shuffled: bool, gain: float) -> None:
    scene = Scene(ROWS, exponent, shuffled, PAGE_ROWS, 0.05)
    ours, _ = measured(scene, LongestWaitJoin)
    papers, _ = measured(scene, HybridJoin)
    assert ours.tuples_per_access > gain * papers.tuples_per_access


def test_for_uniform_keys_it_is_hybrid_joins_w() -> None:
    popularity = zipf_page_popularity(2_000_000, 0, 500, shuffled=False)
    assert matches_per_load(popularity, 100_000) == pytest.approx(1 + 2 * 100_000 * 500 / 2e6, rel=0.02)
