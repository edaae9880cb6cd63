"""The exponent that a stream was drawn with is told from what was seen of it."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.joins.semi_stream.cached_join import CachedJoin
from spark_jobs.joins.semi_stream.hybrid_join import HybridJoin
from spark_jobs.joins.semi_stream.theory.skew_estimate import estimate_exponent
from spark_jobs.workload.zipf import ZipfDistribution
from tests.joins.semi_stream.theory.virtual_run import Scene


@pytest.mark.parametrize("row_count", [200_000, 100_000_000])
@pytest.mark.parametrize("exponent", [0.5, 0.75, 1, 1.2])
def test_from_a_million_tuples(row_count: int, exponent: float) -> None:
    ranks = ZipfDistribution(row_count, exponent).ranks(np.random.default_rng(1).random(1_000_000))
    _, counts = np.unique(ranks, return_counts=True)
    assert estimate_exponent(counts, len(ranks), row_count) == pytest.approx(exponent, abs=0.02)


@pytest.mark.parametrize("exponent", [0.5, 1, 1.2])
def test_from_the_frequency_recorder_of_a_front_stage(exponent: float) -> None:
    scene = Scene(1_000_000, exponent, False, 1000, 0.02)
    run = scene.run(lambda relation: CachedJoin(relation, scene.memory_bytes, HybridJoin))
    run.measure(1_000_000)
    assert isinstance(run.join, CachedJoin)
    front = run.join.front_stage
    assert estimate_exponent(front.frequencies, front.observed, 1_000_000) == pytest.approx(exponent, abs=0.05)


@pytest.mark.parametrize("exponent", [0, 0.1])
def test_little_skew_is_told_as_little(exponent: float) -> None:
    ranks = ZipfDistribution(1_000_000, exponent).ranks(np.random.default_rng(1).random(1_000_000))
    _, counts = np.unique(ranks, return_counts=True)
    assert estimate_exponent(counts, len(ranks), 1_000_000) <= exponent + 0.1


def test_a_uniform_stream_in_a_front_stage() -> None:
    scene = Scene(1_000_000, 0, False, 1000, 0.02)
    run = scene.run(lambda relation: CachedJoin(relation, scene.memory_bytes, HybridJoin))
    run.measure(500_000)
    assert isinstance(run.join, CachedJoin)
    assert estimate_exponent(run.join.front_stage.frequencies, run.join.front_stage.observed, 1_000_000) < 0.1


def test_nothing_seen_is_no_skew() -> None:
    assert estimate_exponent(np.zeros(0), 0, 100) == 0
