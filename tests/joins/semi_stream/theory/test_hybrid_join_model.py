"""The model of HYBRIDJOIN against HYBRIDJOIN, on counted page loads: any skew, order of R, and length of the queue."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.joins.semi_stream.hybrid_join import HybridJoin
from spark_jobs.joins.semi_stream.theory.hybrid_join_model import (
    hybrid_join,
    paper_matches_per_load,
    stays_in_queue,
)
from spark_jobs.joins.semi_stream.theory.popularity import PagePopularity, zipf_page_popularity
from tests.joins.semi_stream.theory.virtual_run import TUPLE_BYTES, Scene

ROWS = 200_000


def matches_per_load(exponent: float, shuffled: bool, page_rows: int, queue_share: float) -> tuple[float, float]:
    """Measured and predicted, where the queue holds this share of as many tuples as R has."""
    memory = 1.19 * page_rows * TUPLE_BYTES + 43 * queue_share * ROWS
    scene = Scene(ROWS, exponent, shuffled, page_rows, memory / (ROWS * TUPLE_BYTES))
    run = scene.run(lambda relation: HybridJoin(relation, scene.memory_bytes))
    assert isinstance(run.join, HybridJoin)
    waiting_tuples = run.join.capacity
    run.measure(8 * waiting_tuples)
    measured = run.measure(max(24 * waiting_tuples, 200_000))
    predicted = stays_in_queue(scene.stream.pages(page_rows, 0), waiting_tuples).matches_per_load
    return measured.tuples_per_access, predicted


@pytest.mark.parametrize(
    ("exponent", "shuffled", "page_rows", "queue_share"),
    [
        (0, False, 50, 0.01),
        (0, False, 2000, 0.2),
        (0.5, False, 500, 0.05),
        (0.75, False, 2000, 0.2),
        (1, False, 50, 0.05),
        (1, False, 500, 0.2),
        (1, False, 2000, 0.6),
        (1, True, 500, 0.01),
        (1.2, False, 50, 0.2),
        (1.2, False, 2000, 0.2),
        (1.2, True, 500, 0.2),
    ],
)
def test_matches_per_load(exponent: float, shuffled: bool, page_rows: int, queue_share: float) -> None:
    measured, predicted = matches_per_load(exponent, shuffled, page_rows, queue_share)
    assert predicted == pytest.approx(measured, rel=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [0, 0.25, 0.5, 0.75, 1, 1.2])
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("page_rows", [50, 500, 2000])
def test_matches_per_load_everywhere(exponent: float, shuffled: bool, page_rows: int) -> None:
    for queue_share in (0.01, 0.05, 0.2, 0.6):
        measured, predicted = matches_per_load(exponent, shuffled, page_rows, queue_share)
        assert predicted == pytest.approx(measured, rel=0.06), queue_share


def test_uniform_keys_share_a_page_twice_as_often_as_in_mesh_join() -> None:
    """DESIGN: w is about 1 + 2 h d / R."""
    popularity = zipf_page_popularity(2_000_000, 0, 500, shuffled=False)
    assert stays_in_queue(popularity, 100_000).matches_per_load == pytest.approx(1 + 2 * 100_000 * 500 / 2e6, rel=0.02)


def test_with_one_waiting_tuple_a_load_settles_one() -> None:
    popularity = zipf_page_popularity(10_000, 1, 10, shuffled=False)
    assert stays_in_queue(popularity, 1).matches_per_load == pytest.approx(1, rel=0.1)


def test_a_single_page_settles_all_that_wait() -> None:
    assert stays_in_queue(PagePopularity.of(np.ones(1)), 1000).matches_per_load == pytest.approx(1000, rel=0.03)


def test_a_mean_stay_is_no_longer_than_the_queue() -> None:
    """Little's law, with time counted in stream tuples: the mean stay is the mean queue, a little less than full."""
    stays = stays_in_queue(zipf_page_popularity(200_000, 1, 500, shuffled=False), 10_000)
    assert 0.5 * 10_000 < stays.mean < 10_000
    assert (np.diff(stays.at_load[np.argsort(-stays.loads)]) >= -1e-6 * stays.at_load.max()).all()


def test_the_papers_formula_has_the_right_form_for_a_long_queue_and_one_skew() -> None:
    rows, page_rows = 2_000_000, 1000
    popularity = zipf_page_popularity(rows, 1, page_rows, shuffled=False)
    ratios = [
        stays_in_queue(popularity, waiting).matches_per_load / paper_matches_per_load(waiting, page_rows, rows)
        for waiting in (200_000, 400_000, 800_000)
    ]
    assert ratios == pytest.approx([ratios[-1]] * 3, rel=0.1)
    # For uniform keys its constant is another one; for a short queue it falls below the one match that is sure.
    uniform = zipf_page_popularity(rows, 0, page_rows, shuffled=False)
    assert stays_in_queue(uniform, 800_000).matches_per_load / paper_matches_per_load(
        800_000, page_rows, rows
    ) == pytest.approx(2 / 1.36, rel=0.02)
    assert paper_matches_per_load(1000, page_rows, rows) < 1 < stays_in_queue(popularity, 1000).matches_per_load


def test_memory_too_small_for_a_page() -> None:
    scene = Scene(ROWS, 1, True, 100, 0.01)
    with pytest.raises(MemoryBudgetError, match="make the pages smaller"):
        hybrid_join(replace(scene.setting, memory_bytes=12_000), scene.stream)
