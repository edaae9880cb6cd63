"""Claims judged on made-up lines: what counts as published, and what does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from spark_jobs.experiments.papers.claims import (
    is_as_fast,
    is_faster,
    lead_moves,
    line_moves,
    ours,
    predictions_hold,
    ratio_at,
    ratio_below,
    ratio_moves,
    rises_then_falls,
    top_near,
)
from spark_jobs.experiments.papers.figure import Axis, Cause, Claim, Curves, Outcome, Panel, Point, Series
from spark_jobs.experiments.papers.measured_lines import interval
from spark_jobs.experiments.papers.presentation import verdict
from spark_jobs.experiments.papers.reproduce import FIGURES
from tests.experiments import test_published_ratios

DEAR_PAGES = Cause("dear pages", "test_pages")


def outcome(claim: Claim, **lines: Sequence[float]) -> Outcome:
    """Judge lines with the points x = 1, 2, 3, ...; predictions are a tenth above what was measured."""
    series = tuple(
        Series(name, tuple(Point(x, y, predicted=1.1 * y) for x, y in enumerate(ys, start=1)))
        for name, ys in lines.items()
    )
    return claim.judge(Curves([Panel(Axis("x"), Axis("y"), series)]))


def test_faster_means_at_every_point() -> None:
    claim = is_faster("a", ("b",), "")
    assert outcome(claim, a=(2, 3), b=(1, 2)).as_published
    assert not outcome(claim, a=(2, 3), b=(1, 4)).as_published
    assert outcome(is_faster("a", ("b",), "", lower_is_better=True), a=(1, 1), b=(2, 3)).measured == "2.00x to 3.00x"


def test_as_fast_means_within_a_part_at_every_point() -> None:
    claim = is_as_fast("a", "b", 0.05, "")
    assert outcome(claim, a=(98, 104), b=(100, 100)).as_published
    assert not outcome(claim, a=(98, 94), b=(100, 100)).as_published


def test_a_published_ratio_is_reached_from_nine_tenths_on() -> None:
    claim = ratio_at(2, "a", "b", 4, "")
    assert outcome(claim, a=(1, 7.3), b=(1, 2)).reached
    short = outcome(claim, a=(1, 6), b=(1, 2))
    assert short.as_published
    assert not short.reached
    assert short.measured == short.predicted == "3.00x"
    assert not outcome(claim, a=(9, 1), b=(1, 2)).as_published


def test_a_little_slower_is_neither_faster_nor_far_slower() -> None:
    claim = ratio_below(1, "a", "b", "")
    assert [outcome(claim, a=(y,), b=(10,)).as_published for y in (11, 9, 5)] == [False, True, False]


def test_advantages_move_as_ratios_or_as_differences() -> None:
    lines = {"a": (20, 300), "b": (10, 200)}
    assert outcome(ratio_moves("a", "b", rises=False, text=""), **lines).as_published
    assert outcome(lead_moves("a", "b", rises=True, text=""), **lines).as_published
    assert outcome(line_moves("a", rises=True, text=""), **lines).as_published


def test_a_maximum_lies_inside_and_near_where_it_was_published() -> None:
    assert outcome(rises_then_falls("a", ""), a=(1, 3, 2)).as_published
    assert not outcome(rises_then_falls("a", ""), a=(1, 2, 3)).as_published
    assert outcome(top_near("a", 2, 0, "", ""), a=(1, 2.95, 3)).as_published
    assert not outcome(top_near("a", 2, 0, "", ""), a=(1, 2, 3)).as_published


def test_predictions_are_compared_point_by_point() -> None:
    assert outcome(predictions_hold(["a"], 0.11, ""), a=(1, 5)).as_published
    assert not outcome(predictions_hold(["a"], 0.09, ""), a=(1, 5)).as_published


def test_confidence_intervals_are_students() -> None:
    assert interval([3.0]) == (3.0, None, None)
    mean, low, high = interval([1.0, 2.0, 3.0])
    assert (mean, low, high) == pytest.approx((2, 2 - 4.303 / 3**0.5, 2 + 4.303 / 3**0.5), rel=1e-3)


@pytest.mark.parametrize(
    ("line", "cause", "contradicted", "told"),
    [
        ((4,), None, False, "reached"),
        ((2,), None, False, "order as published, number NOT reached; cause unknown"),
        ((2,), DEAR_PAGES, False, "order as published, number NOT reached; dear pages; shown by test_pages"),
        ((0.5,), DEAR_PAGES, True, "NOT as published; dear pages; shown by test_pages"),
        ((0.5,), DEAR_PAGES, False, "NOT as published; cause unknown"),
    ],
)
def test_a_number_that_is_not_reached_is_never_told_as_published(
    line: Sequence[float], cause: Cause | None, contradicted: bool, told: str
) -> None:
    claim = ratio_at(1, "a", "b", 4, "", cause=cause, contradicted=contradicted)
    assert verdict(claim, outcome(claim, a=line, b=(1,))) == told


def test_an_order_without_a_number_is_as_published_and_a_statement_of_ours_holds() -> None:
    claim = is_faster("a", ("b",), "")
    assert verdict(claim, outcome(claim, a=(2,), b=(1,))) == "as published"
    assert verdict(ours(claim), outcome(claim, a=(2,), b=(1,))) == "holds"
    assert verdict(ours(claim), outcome(claim, a=(1,), b=(2,))) == "does NOT hold"


def test_the_test_that_shows_a_cause_is_there() -> None:
    causes = [claim.cause for figure in FIGURES for claim in figure.claims if claim.cause is not None]
    assert causes
    assert [cause.test for cause in causes if not hasattr(test_published_ratios, cause.test)] == []
