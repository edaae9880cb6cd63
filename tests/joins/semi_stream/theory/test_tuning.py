"""The sizes that calculus finds are as good as the best of a measured sweep."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_jobs.joins.semi_stream.theory.prediction import predict
from spark_jobs.joins.semi_stream.theory.tuning import best_front_share, best_page_rows
from tests.joins.semi_stream.theory.virtual_run import Scene


@pytest.mark.parametrize("algorithm", ["mesh_join", "hybrid_join"])
@pytest.mark.parametrize("shuffled", [True, False])
def test_best_disk_buffer_against_a_sweep(algorithm: str, shuffled: bool) -> None:
    scene = Scene(100_000, 1, shuffled, 0, 0.05)
    best = best_page_rows(algorithm, scene.setting, scene.stream)
    swept = [
        replace(scene, page_rows=round(best * factor)).measured(algorithm).service_rate for factor in (0.2, 0.5, 1.5, 2)
    ]
    tuned = replace(scene, page_rows=best).measured(algorithm).service_rate
    assert tuned >= 0.98 * max(swept)
    assert min(swept) < 0.9 * tuned


@pytest.mark.parametrize("exponent", [1, 1.2])
def test_best_front_stage_against_a_sweep(exponent: float) -> None:
    scene = Scene(100_000, exponent, True, 500, 0.05)
    best = best_front_share("cached_hybrid_join", scene.setting, scene.stream)
    shares = [best, 0.02, 0.1, 0.2, 0.4, 0.7]
    measured = [
        scene.measured("cached_hybrid_join", front_share=share, warm_up=40, measured=20).service_rate
        for share in shares
    ]
    assert measured[0] >= 0.96 * max(measured)
    assert min(measured) < 0.9 * measured[0]


@pytest.mark.parametrize("algorithm", ["mesh_join", "hybrid_join", "cached_hybrid_join"])
@pytest.mark.parametrize("memory_share", [0.01, 0.1])
def test_no_other_disk_buffer_is_predicted_to_be_better(algorithm: str, memory_share: float) -> None:
    scene = Scene(2_000_000, 1, False, 0, memory_share)

    def rate(page_rows: float) -> float:
        return predict(algorithm, replace(scene.setting, page_rows=page_rows), scene.stream).service_rate

    best = best_page_rows(algorithm, scene.setting, scene.stream)
    assert rate(best) >= 0.999 * max(rate(best * factor) for factor in (0.5, 0.8, 1.25, 2))


def test_the_best_front_stage_at_skew_1_takes_about_the_papers_share() -> None:
    """003 §5.4: 15 % at R = 100 million tuples; the optimum is flat."""
    for memory_share in (0.01, 0.1):
        scene = Scene(100_000_000, 1, True, 50_000, memory_share)
        assert 0.08 < best_front_share("cached_hybrid_join", scene.setting, scene.stream) < 0.25


def test_a_front_stage_does_not_pay_for_uniform_keys() -> None:
    scene = Scene(2_000_000, 0, True, 1000, 0.05)
    assert best_front_share("cached_hybrid_join", scene.setting, scene.stream) == 0


def test_a_page_is_never_larger_than_r() -> None:
    scene = Scene(1000, 1, False, 0, 50)
    assert best_page_rows("mesh_join", scene.setting, scene.stream) <= 1000
