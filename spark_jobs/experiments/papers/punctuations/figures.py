"""001 PJoin Fig. 5 to 14: state, output rate, purge strategies, punctuation rates that differ, propagation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from spark_jobs.experiments.papers.claims import fact, line_moves, ours
from spark_jobs.experiments.papers.figure import Axis, Claim, Curves, Figure, Origin, Panel, Point, Series
from spark_jobs.experiments.papers.figure_setting import FigureSetting
from spark_jobs.experiments.papers.punctuations.punctuated_run import (
    ASSUMPTION,
    BUCKETS,
    COSTS,
    MEAN_GAP,
    WINDOW,
    PunctuatedRun,
    Sample,
    tuple_count,
)
from spark_jobs.joins.stream_stream.p_join import Find
from spark_jobs.joins.stream_stream.theory.punctuation_model import best_threshold, state_size

Intervals = tuple[float, float]
Value = Callable[[Sample], float]
Prediction = Callable[[Sample], float]

STREAM_TIME = Axis("seconds of the streams")
PROCESSOR_TIME = Axis("seconds of processor time")
STATE = Axis("tuples in the join's state")
OUTPUT = Axis("results (thousands)")
THRESHOLDS = (1, 100, 400, 800)
_LAZY = 100


@cache
def played(
    intervals: Intervals, tuples: int, threshold: int | None, find: Find = "scan", together: bool = False
) -> tuple[Sample, ...]:
    """A run's samples; several figures show the same runs."""
    return tuple(PunctuatedRun(intervals, tuples, threshold, find, together).run().samples)


def state_line(name: str, samples: Sequence[Sample], predicted: Prediction | None = None) -> Series:
    """Tuples kept over the time of the streams."""
    return Series(
        name,
        tuple(
            Point(each.stream_seconds, sum(each.state), None if predicted is None else predicted(each))
            for each in samples
        ),
    )


def output_line(name: str, samples: Sequence[Sample], until: float, origin: Origin = Origin.PAPER) -> Series:
    """Results over processor time, up to the moment when the quickest of the figure is done."""
    spent = [0.0, *(each.processor_seconds for each in samples)]
    results = [0.0, *(each.results / 1e3 for each in samples)]
    seconds = np.linspace(0, until, len(samples) + 1)[1:]
    return Series(
        name,
        tuple(Point(float(x), float(y)) for x, y in zip(seconds, np.interp(seconds, spent, results), strict=True)),
        origin,
    )


def _expected(intervals: Intervals, threshold: int = 1) -> Prediction:
    """The model, from when the windows are full."""
    return lambda each: state_size(each.stream_seconds / MEAN_GAP, intervals, WINDOW, threshold)


def _outputs(runs: Mapping[str, Sequence[Sample]], own: Sequence[str] = ()) -> list[Panel]:
    until = min(samples[-1].processor_seconds for samples in runs.values())
    lines = [output_line(name, runs[name], until, Origin.OURS if name in own else Origin.PAPER) for name in runs]
    return [Panel(PROCESSOR_TIME, OUTPUT, tuple(lines))]


def _states(setting: FigureSetting, lines: Sequence[tuple[str, Intervals, int | None]]) -> list[Panel]:
    drawn = []
    for name, intervals, threshold in setting.each(lines, lambda line: line[0]):
        samples = played(intervals, tuple_count(setting), threshold)
        drawn.append(state_line(name, samples, None if threshold is None else _expected(intervals, threshold)))
    return [Panel(STREAM_TIME, STATE, tuple(drawn))]


def measure_memory(setting: FigureSetting) -> list[Panel]:
    """Fig. 5."""
    return _states(setting, [("PJoin-1", (40, 40), 1), ("XJoin", (40, 40), None)])


def measure_intervals(setting: FigureSetting) -> list[Panel]:
    """Fig. 6."""
    return _states(setting, [(f"PJoin-1, {interval}", (interval, interval), 1) for interval in (10, 20, 30)])


def measure_output(setting: FigureSetting) -> list[Panel]:
    """Fig. 7, and a purge by index."""
    tuples = tuple_count(setting)
    runs = {
        "PJoin-1": played((30, 30), tuples, 1),
        "XJoin": played((30, 30), tuples, None),
        "PJoin-1, by index": played((30, 30), tuples, 1, "index"),
    }
    return _outputs(runs, own=["PJoin-1, by index"])


def measure_lazy_memory(setting: FigureSetting) -> list[Panel]:
    """Fig. 8."""
    return _states(setting, [("PJoin-1", (10, 10), 1), ("PJoin-10", (10, 10), 10)])


def measure_thresholds(setting: FigureSetting) -> list[Panel]:
    """Fig. 9, and eager purge by index."""
    tuples = tuple_count(setting)
    runs: dict[str, Sequence[Sample]] = {}
    for threshold in setting.each(THRESHOLDS, lambda threshold: f"purge threshold {threshold}"):
        runs[f"PJoin-{threshold}"] = played((10, 10), tuples, threshold)
    runs["PJoin-1, by index"] = played((10, 10), tuples, 1, "index")
    return _outputs(runs, own=["PJoin-1, by index"])


def measure_asymmetric_memory(setting: FigureSetting) -> list[Panel]:
    """Fig. 10."""
    return _states(setting, [(f"B: {other}", (10, other), 1) for other in (20, 30, 40)])


def measure_asymmetric_output(setting: FigureSetting) -> list[Panel]:
    """Fig. 11."""
    tuples = tuple_count(setting)
    return _outputs({f"B: {other}": played((10, other), tuples, 1) for other in (20, 40)})


def measure_asymmetric_strategies(setting: FigureSetting) -> list[Panel]:
    """Fig. 12, and eager purge by index."""
    tuples = tuple_count(setting)
    runs = {
        "XJoin": played((10, 20), tuples, None),
        "PJoin-1": played((10, 20), tuples, 1),
        f"PJoin-{_LAZY}": played((10, 20), tuples, _LAZY),
        "PJoin-1, by index": played((10, 20), tuples, 1, "index"),
    }
    return _outputs(runs, own=["PJoin-1, by index"])


def measure_asymmetric_state(setting: FigureSetting) -> list[Panel]:
    """Fig. 13."""
    return _states(setting, [("XJoin", (10, 20), None), ("PJoin-1", (10, 20), 1), (f"PJoin-{_LAZY}", (10, 20), _LAZY)])


def measure_propagation(setting: FigureSetting) -> list[Panel]:
    """Fig. 14."""
    samples = played((40, 40), tuple_count(setting), 1, "scan", True)
    points = tuple(Point(each.stream_seconds, each.propagated) for each in samples)
    return [Panel(STREAM_TIME, Axis("punctuations handed on"), (Series("PJoin", points),))]


def _share_at_end(name: str, other: str, published: str, text: str, most: float) -> Claim:
    def check(curves: Curves) -> tuple[str, bool]:
        share = curves[name].points[-1].y / curves[other].points[-1].y
        return f"{share:.1%} at the end", share < most

    return fact(text, published, check)


def _late(curves: Curves, name: str) -> float:
    """A line's mean over the second half of its run."""
    points = curves[name].points[len(curves[name].points) // 2 :]
    return sum(point.y for point in points) / len(points)


def _above(higher: str, lower: Sequence[str], text: str) -> Claim:
    """In the second half a line lies above others."""

    def check(curves: Curves) -> tuple[str, bool]:
        ratios = [_late(curves, higher) / _late(curves, other) for other in lower]
        return " and ".join(f"{ratio:.2f}x {other}" for ratio, other in zip(ratios, lower, strict=True)), min(
            ratios
        ) > 1

    return fact(text, "above 1x", check)


def _order(names: Sequence[str], text: str, published: str) -> Claim:
    """In the second half the lines lie in this order, the highest first."""

    def check(curves: Curves) -> tuple[str, bool]:
        means = [_late(curves, name) for name in names]
        told = " > ".join(f"{name} {mean:,.0f}" for name, mean in zip(names, means, strict=True))
        return told, means == sorted(means, reverse=True)

    return fact(text, published, check)


def _as_quick(name: str, other: str, text: str) -> Claim:
    """In the second half a line lies above nine tenths of another."""

    def check(curves: Curves) -> tuple[str, bool]:
        ratio = _late(curves, name) / _late(curves, other)
        return f"{ratio:.2f}x", ratio > 0.9

    return ours(fact(text, "-", check))


def _steady(name: str, text: str, within: float = 0.25) -> Claim:
    """A line's slope in its second half is that of its first."""

    def check(curves: Curves) -> tuple[str, bool]:
        points = curves[name].points
        middle = points[len(points) // 2 - 1]
        ratio = (points[-1].y - middle.y) / (points[-1].x - middle.x) / (middle.y / middle.x)
        return f"second half at {ratio:.2f}x the rate of the first", abs(ratio - 1) <= within

    return fact(text, "steady", check)


def _slows(name: str, text: str) -> Claim:
    def check(curves: Curves) -> tuple[str, bool]:
        points = curves[name].points
        middle = points[len(points) // 2 - 1]
        ratio = (points[-1].y - middle.y) / (points[-1].x - middle.x) / (middle.y / middle.x)
        return f"second half at {ratio:.2f}x the rate of the first", ratio < 1

    return fact(text, "drops", check)


def _state_as_predicted(names: Sequence[str], within: float) -> Claim:
    """Averages over the second half of the run."""

    def check(curves: Curves) -> tuple[str, bool]:
        ratios = []
        for name in names:
            late = curves[name].points[len(curves[name].points) // 2 :]
            ratios.append(sum(point.y for point in late) / sum(point.predicted or 0.0 for point in late))
        return f"{min(ratios):.2f}x to {max(ratios):.2f}x the model", max(abs(r - 1) for r in ratios) <= within

    return ours(fact("The state has the size that the model gives", "-", check))


def _best_threshold() -> str:
    best = best_threshold(COSTS, eager=10 * WINDOW, interval=10, buckets=BUCKETS)
    return f"the model's best threshold is {best:.0f}"


def _figure(
    number: int, title: str, claims: Sequence[Claim], measure: Callable[[FigureSetting], list[Panel]], more: str = ""
) -> Figure:
    return Figure(f"001-pjoin-{number}", title, tuple(claims), measure, 0.2, 64 << 20, f"{ASSUMPTION} {more}".strip())


FIGURES = (
    _figure(
        5,
        "State of PJoin and XJoin, a punctuation every 40 tuples",
        [
            _share_at_end("PJoin-1", "XJoin", "almost insignificant", "PJoin's state beside XJoin's", 0.1),
            line_moves("XJoin", rises=True, text="XJoin's state grows all the time"),
            _state_as_predicted(["PJoin-1"], 0.25),
        ],
        measure_memory,
    ),
    _figure(
        6,
        "State of PJoin by the interval between punctuations",
        [
            _order(
                ["PJoin-1, 30", "PJoin-1, 20", "PJoin-1, 10"],
                "The longer the interval, the larger the state",
                "30 > 20 > 10",
            ),
            _state_as_predicted(["PJoin-1, 10", "PJoin-1, 20", "PJoin-1, 30"], 0.25),
        ],
        measure_intervals,
    ),
    _figure(
        7,
        "Results of PJoin and XJoin, a punctuation every 30 tuples",
        [
            _steady("PJoin-1", "PJoin keeps an almost steady output rate"),
            _slows("XJoin", "XJoin's output rate drops"),
            ours(
                _above(
                    "PJoin-1, by index", ["PJoin-1", "XJoin"], "A purge that finds its tuples by their keys is quicker"
                )
            ),
        ],
        measure_output,
    ),
    _figure(
        8,
        "State with eager and lazy purge, a punctuation every 10 tuples",
        [
            _above("PJoin-10", ["PJoin-1"], "Lazy purge takes more memory"),
            _state_as_predicted(["PJoin-1", "PJoin-10"], 0.25),
        ],
        measure_lazy_memory,
    ),
    _figure(
        9,
        "Results by purge threshold, a punctuation every 10 tuples",
        [
            _order(
                ["PJoin-100", "PJoin-400", "PJoin-800"],
                "Beyond some threshold probing costs more than purging less often saves",
                "100 > 400 > 800",
            ),
            _above("PJoin-100", ["PJoin-1"], "Eager purge loses to a lazy one"),
            _as_quick("PJoin-1, by index", "PJoin-100", "By index, eager purge is as quick as the best lazy scan"),
        ],
        measure_thresholds,
        f"For these costs {_best_threshold()}.",
    ),
    _figure(
        10,
        "State where stream A has a punctuation every 10 tuples, stream B every 20, 30 or 40",
        [
            _order(["B: 40", "B: 30", "B: 20"], "The larger the difference, the larger the state", "40 > 30 > 20"),
            _state_as_predicted(["B: 20", "B: 30", "B: 40"], 0.25),
        ],
        measure_asymmetric_memory,
    ),
    _figure(
        11,
        "Results where stream A has a punctuation every 10 tuples, stream B every 20 or 40",
        [_above("B: 40", ["B: 20"], "The slower the punctuations, the greater the output rate")],
        measure_asymmetric_output,
    ),
    _figure(
        12,
        "Results by purge strategy, punctuations every 10 and 20 tuples",
        [
            _above("XJoin", ["PJoin-1"], "PJoin with eager purge lags behind XJoin"),
            _above(f"PJoin-{_LAZY}", ["XJoin"], "With lazy purge it is at least as good"),
            _as_quick("PJoin-1, by index", f"PJoin-{_LAZY}", "By index, so it is with eager purge"),
        ],
        measure_asymmetric_strategies,
    ),
    _figure(
        13,
        "State by purge strategy, punctuations every 10 and 20 tuples",
        [
            _above("XJoin", ["PJoin-1", f"PJoin-{_LAZY}"], "PJoin's state is smaller than XJoin's"),
            _share_at_end(
                f"PJoin-{_LAZY}", "PJoin-1", "insignificant", "Lazy purge takes hardly more memory than eager", 1.2
            ),
        ],
        measure_asymmetric_state,
    ),
    _figure(
        14,
        "Punctuations handed on, both streams punctuated alike every 40 tuples",
        [_steady("PJoin", "PJoin hands punctuations on at a steady rate")],
        measure_propagation,
    ),
)
