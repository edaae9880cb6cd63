"""004 Fig. 2: results by time, of a quaternary join and of a tree of binary ones, with two merge strategies."""

from __future__ import annotations

import numpy as np

from spark_jobs.experiments.papers.claims import fact
from spark_jobs.experiments.papers.figure import Axis, Curves, Figure, Origin, Panel, Point, Series
from spark_jobs.experiments.papers.figure_setting import FigureSetting
from spark_jobs.experiments.papers.sort_based.interval_joins import (
    ASSUMPTION,
    FEW_RESULTS_AT_FIRST,
    LENGTH,
    PUBLISHED_RESULTS,
    SHAPES,
    STRATEGIES,
    STREAMS,
    TUPLES,
    WINDOW,
    measured,
    sizes,
)
from spark_jobs.joins.stream_stream.theory.interval_results import expected_results

_READINGS = 60
_COMPUTABLE = "computable"
_WINDOW_SECONDS = 10.0
_STREAM_SECONDS = 100.0
# Seconds behind, and the part by which a number of results may differ.
_PRACTICALLY, _NEARLY_THE_NUMBER = 10.0, 0.03


def measure(setting: FigureSetting) -> list[Panel]:
    """Results at equal distances of time, until the last run has ended."""
    part = setting.scale.sort_based_part
    kinds = [(shape, strategy) for strategy in STRATEGIES for shape in SHAPES]
    runs = {kind: measured(*kind, part).run for kind in setting.each(kinds, " ".join)}
    times = np.linspace(0, max(run.seconds[-1] for run in runs.values()), _READINGS).tolist()
    series = [
        Series(_name(*kind), tuple(Point(time, run.results_at(time)) for time in times)) for kind, run in runs.items()
    ]
    starts = runs[SHAPES[0], "Greedy"].starts
    instants = [time * 1000 * part for time in times]
    computable = np.searchsorted(starts, instants).tolist()
    size = sizes(part)
    expected = [
        expected_results(STREAMS, size.tuples, LENGTH, size.window, min(int(instant), size.tuples))
        for instant in instants
    ]
    points = tuple(Point(*values) for values in zip(times, computable, expected, strict=True))
    series.append(Series(_COMPUTABLE, points, Origin.REFERENCE))
    return [Panel(Axis("time (s)"), Axis("results"), tuple(series))]


def _name(shape: str, strategy: str) -> str:
    return f"{shape}, {strategy}"


def _greedy_keeps_up(curves: Curves) -> tuple[str, bool]:
    lags = []
    for shape in SHAPES:
        points = [point for point in curves[_name(shape, "Greedy")].points if point.x < _STREAM_SECONDS]
        lags.append(max(_lag(curves[_COMPUTABLE], point) for point in points))
    return " and ".join(f"{lag:.0f} s" for lag in lags) + " behind at most", max(lags) < _PRACTICALLY


def _lag(computable: Series, point: Point) -> float:
    """How long ago there were more results to be computed than there are."""
    return point.x - max(earlier.x for earlier in computable.points if earlier.y <= point.y)


def _one_join_is_ahead(curves: Curves) -> tuple[str, bool]:
    one, tree = (sum(point.y for point in curves[_name(shape, "Greedy")].points) for shape in SHAPES)
    return f"{one / tree:.3f}x, on average over time", one > tree


def _max_fan_in_waits(curves: Curves) -> tuple[str, bool]:
    told, waits = [], True
    for shape in SHAPES:
        greedy, conservative = (curves[_name(shape, strategy)] for strategy in ("Greedy", "MaxFanIn"))
        at_end = [line.at(_STREAM_SECONDS).y / line.top.y for line in (conservative, greedy)]
        told.append(f"{at_end[0]:.0%}")
        waits = waits and at_end[0] < at_end[1]
    return f"{' and '.join(told)} of the results when the streams end", waits


def _number_of_results(curves: Curves) -> tuple[str, bool]:
    counts = {series.top.y for series in curves.all() if series.name != _COMPUTABLE}
    expected = curves[_COMPUTABLE].points[-1].predicted
    assert expected is not None
    published = expected / expected_results(STREAMS, TUPLES, LENGTH, WINDOW) * PUBLISHED_RESULTS
    (count,) = counts if len(counts) == 1 else (0.0,)
    text = f"{count:,.0f}; expected {expected:,.0f}, published {published:,.0f} at this scale"
    return text, abs(count / published - 1) < _NEARLY_THE_NUMBER


def _nothing_before_the_window_is_full(curves: Curves) -> tuple[str, bool]:
    lines = [series for series in curves.all() if series.name != _COMPUTABLE]
    first = {line.name: next(point.x for point in line.points if point.y) for line in lines}
    share = max(line.at(_WINDOW_SECONDS).y / line.top.y for line in lines)
    return f"from {min(first.values()):.1f} s on, {share:.1%} by 10 s", min(first.values()) > _WINDOW_SECONDS


FIGURE = Figure(
    "004-2",
    "Results by time: four streams in one join or in a tree of binary ones, two merge strategies",
    (
        fact(
            "With Greedy both variants practically keep up with what can be computed (004 §7)",
            "keep up",
            _greedy_keeps_up,
        ),
        fact("With Greedy the one join is slightly faster than the tree (004 §7)", "faster", _one_join_is_ahead),
        fact(
            "With MaxFanIn the joins wait too long, and end when all sources have run dry (004 §7)",
            "waits",
            _max_fan_in_waits,
        ),
        fact(
            "All variants compute the same results (004 §7)",
            f"{PUBLISHED_RESULTS:,}",
            _number_of_results,
            number=True,
        ),
        fact(
            "No results before the first tuples leave their windows, after 10 s (004 §7)",
            "after 10 s",
            _nothing_before_the_window_is_full,
            cause=FEW_RESULTS_AT_FIRST,
            contradicted=True,
        ),
    ),
    measure,
    minutes_at_paper_scale=0.5,
    memory_at_paper_scale=500_000_000,
    assumption=ASSUMPTION,
)
