"""The kinds of statements that the papers make about their figures, and how each is compared with measured lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from spark_jobs.experiments.papers.figure import Cause, Claim, Curves, Origin, Outcome, Point, Series

# A published number counts as reached from this part of it on: the papers' machines are not ours.
REACHED = 0.9
# A line moves only if its ends differ by more than chance makes them.
_LEAST_MOVE = 1.01
_NEARLY_THE_TOP = 0.97


def is_faster(
    winner: str,
    losers: Sequence[str],
    text: str,
    *,
    lower_is_better: bool = False,
) -> Claim:
    """The winner's line lies above (or below) those of the losers at every x."""

    def judge(curves: Curves) -> Outcome:
        pairs = [(a, b) for loser in losers for a, b in _paired(curves[winner], curves[loser])]
        ratios = [b.y / a.y if lower_is_better else a.y / b.y for a, b in pairs]
        measured = f"{min(ratios):.2f}x to {max(ratios):.2f}x"
        predicted = _predicted_ratios(pairs, lower_is_better)
        return Outcome(_range(predicted), measured, as_published=min(ratios) > 1)

    return Claim(text, "at every point", judge)


def is_as_fast(name: str, other: str, within: float, text: str) -> Claim:
    """Two lines lie within this part of each other at every x."""

    def judge(curves: Curves) -> Outcome:
        pairs = _paired(curves[name], curves[other])
        ratios = [a.y / b.y for a, b in pairs]
        predicted = _predicted_ratios(pairs, lower_is_better=False)
        return Outcome(_range(predicted), _range(ratios), max(abs(ratio - 1) for ratio in ratios) <= within)

    return Claim(text, "the same", judge)


def ratio_at(
    x: float,
    winner: str,
    loser: str,
    published: float,
    text: str,
    *,
    cause: Cause | None = None,
    contradicted: bool = False,
) -> Claim:
    """At one x the winner is a number of times as fast as the loser."""

    def judge(curves: Curves) -> Outcome:
        a, b = curves[winner].at(x), curves[loser].at(x)
        return _ratio_outcome(a, b, published)

    told = f"{published:g}x" if published > 1 else "above 1x"
    return Claim(text, told, judge, cause, contradicted)


def ratio_below(x: float, slower: str, faster: str, text: str) -> Claim:
    """At one x a line lies a little lower than another: by less than a third."""

    def judge(curves: Curves) -> Outcome:
        outcome = _ratio_outcome(curves[slower].at(x), curves[faster].at(x), published=1)
        ratio = curves[slower].at(x).y / curves[faster].at(x).y
        return Outcome(outcome.predicted, outcome.measured, as_published=2 / 3 < ratio < 1)

    return Claim(text, "a little below 1x", judge)


def greatest_ratio(
    winner: str, loser: str, published: float, text: str, *, cause: Cause | None = None, contradicted: bool = False
) -> Claim:
    """The winner is up to a number of times as fast as the loser."""

    def judge(curves: Curves) -> Outcome:
        pairs = _paired(curves[winner], curves[loser])
        return _ratio_outcome(*max(pairs, key=lambda pair: pair[0].y / pair[1].y), published)

    return Claim(text, f"up to {published:g}x", judge, cause, contradicted)


def ratio_moves(
    winner: str, loser: str, *, rises: bool, text: str, cause: Cause | None = None, contradicted: bool = False
) -> Claim:
    """From the first x to the last the winner's advantage grows, or shrinks."""

    def judge(curves: Curves) -> Outcome:
        pairs = _paired(curves[winner], curves[loser])
        first, last = (pair[0].y / pair[1].y for pair in (pairs[0], pairs[-1]))
        predicted = _predicted_ratios([pairs[0], pairs[-1]], lower_is_better=False)
        told = f"{predicted[0]:.2f}x to {predicted[-1]:.2f}x" if len(predicted) == 2 else ""
        return Outcome(told, f"{first:.2f}x to {last:.2f}x", as_published=last > first if rises else last < first)

    return Claim(text, "grows with x" if rises else "shrinks with x", judge, cause, contradicted)


def lead_moves(winner: str, loser: str, *, rises: bool, text: str) -> Claim:
    """From the first x to the last the winner's lead, as a difference, grows or shrinks."""

    def judge(curves: Curves) -> Outcome:
        first, last = (
            (a.y - b.y, _prediction(a) - _prediction(b))
            for a, b in (_paired(curves[winner], curves[loser])[end] for end in (0, -1))
        )
        return Outcome(
            _span(first[1], last[1]),
            _span(first[0], last[0]),
            as_published=last[0] > first[0] if rises else last[0] < first[0],
        )

    return Claim(text, "grows with x" if rises else "shrinks with x", judge)


def line_moves(name: str, *, rises: bool, text: str, cause: Cause | None = None, contradicted: bool = False) -> Claim:
    """From the first x to the last a line rises, or falls."""

    def judge(curves: Curves) -> Outcome:
        first, last = curves[name].points[0], curves[name].points[-1]
        told = "" if first.predicted is None or last.predicted is None else _span(first.predicted, last.predicted)
        moved = last.y / first.y if rises else first.y / last.y
        return Outcome(told, _span(first.y, last.y), as_published=moved > _LEAST_MOVE)

    return Claim(text, "rises" if rises else "falls", judge, cause, contradicted)


def rises_then_falls(name: str, text: str) -> Claim:
    """A line has its maximum between its ends."""

    def judge(curves: Curves) -> Outcome:
        series = curves[name]
        inside = series.points[0].y < series.top.y > series.points[-1].y
        expected = [point for point in series.points if point.predicted is not None]
        told = f"top at {max(expected, key=_prediction).x:g}" if expected else ""
        return Outcome(told, f"top at {series.top.x:g}", as_published=inside)

    return Claim(text, "rises, then falls", judge)


def top_near(name: str, x: float, within: float, text: str, published: str) -> Claim:
    """A line's maximum lies within a distance of x, or is hardly higher than the line there."""

    def judge(curves: Curves) -> Outcome:
        series = curves[name]
        expected = [point for point in series.points if point.predicted is not None]
        told = f"top at {max(expected, key=_prediction).x:g}" if expected else ""
        part = series.at(x).y / series.top.y
        near = abs(series.top.x - x) <= within or part >= _NEARLY_THE_TOP
        measured = f"top at {series.top.x:g}, {part:.0%} of it at {x:g}"
        return Outcome(told, measured, as_published=near, reached=near)

    return Claim(text, published, judge)


def predictions_hold(names: Sequence[str], within: float, text: str) -> Claim:
    """Measured and calculated costs resemble each other closely: within this part of each other."""

    def judge(curves: Curves) -> Outcome:
        errors = {
            (name, point.x): abs(point.predicted / point.y - 1)
            for name in names
            for point in curves[name].points
            if point.predicted is not None
        }
        if not errors:
            return Outcome("", "no prediction", as_published=False)
        (name, x), worst = max(errors.items(), key=lambda item: item[1])
        return Outcome(f"within {within:.0%}", f"within {worst:.1%} ({name} at {x:g})", as_published=worst <= within)

    return Claim(text, "close", judge)


def fact(
    text: str,
    published: str,
    check: Callable[[Curves], tuple[str, bool]],
    *,
    cause: Cause | None = None,
    contradicted: bool = False,
    number: bool = False,
) -> Claim:
    """Anything else: `check` tells what was measured, and whether that is as published: a number, or something else."""

    def judge(curves: Curves) -> Outcome:
        measured, as_published = check(curves)
        return Outcome("", measured, as_published, reached=as_published if number else None)

    return Claim(text, published, judge, cause, contradicted)


def ours(claim: Claim) -> Claim:
    """A statement of our own, about which nothing was published."""
    return replace(claim, published="-", origin=Origin.OURS)


def _paired(first: Series, second: Series) -> list[tuple[Point, Point]]:
    other = {point.x: point for point in second.points}
    return [(point, other[point.x]) for point in first.points if point.x in other]


def _ratio_outcome(a: Point, b: Point, published: float) -> Outcome:
    ratio = a.y / b.y
    told = "" if a.predicted is None or b.predicted is None else f"{a.predicted / b.predicted:.2f}x"
    reached = ratio >= REACHED * published if published > 1 else None
    return Outcome(told, f"{ratio:.2f}x", as_published=ratio > 1, reached=reached)


def _predicted_ratios(pairs: Sequence[tuple[Point, Point]], lower_is_better: bool) -> list[float]:
    ratios = [a.predicted / b.predicted for a, b in pairs if a.predicted is not None and b.predicted is not None]
    return [1 / ratio for ratio in ratios] if lower_is_better else ratios


def _range(ratios: Sequence[float]) -> str:
    return f"{min(ratios):.2f}x to {max(ratios):.2f}x" if ratios else ""


def _span(first: float, last: float) -> str:
    return f"{first:,.3g} to {last:,.3g}"


def _prediction(point: Point) -> float:
    return -1.0 if point.predicted is None else point.predicted
