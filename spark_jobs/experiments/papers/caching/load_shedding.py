"""003 Fig. 7 and 8: where to look up under load shedding, and what shedding does for the service rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spark_jobs.errors import WorkloadError
from spark_jobs.experiments.papers.caching.caching_data import memory, relation_tuples, skewed
from spark_jobs.experiments.papers.claims import fact, ours, ratio_at, top_near
from spark_jobs.experiments.papers.contenders import CHYBRIDJOIN, HYBRIDJOIN, Contender
from spark_jobs.experiments.papers.disks import VirtualKind
from spark_jobs.experiments.papers.figure import Axis, Cause, Curves, Figure, Origin, Panel, Point, Series
from spark_jobs.experiments.papers.figure_setting import FigureSetting
from spark_jobs.experiments.papers.measured_point import best_page_rows, waiting_capacity
from spark_jobs.experiments.semi_stream.shedding_run import (
    LONGEST_WAIT,
    SheddingPoint,
    SheddingSetting,
    arrival_rate_series,
    lookup_position_series,
)
from spark_jobs.experiments.semi_stream.workloads import Workload, zipf

# Where the disk is what limits the service rate, as it did the papers': arrivals five times as fast must not be more
# than the processor can look at.
_MEMORY_PERCENT = 1
_TURNOVERS = 10
_SHARES = (0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)
_OVERLOADS = (0.5, 1, 2, 3.5, 5)
_ARRIVALS = "stream arrival rate"
_MOST = 1e12  # further right than any arrival rate: the last point of a line
_MOSTLY_HITS = Cause(
    "of a stream that comes five times too fast even untuned shedding joins two thirds and more, and most of that by "
    "the front stage, which no lookup position changes; how much it changes the rest, see 003-7",
    "test_untuned_shedding_leaves_little_to_gain_behind_a_front_stage",
)
_SORTED = "HYBRIDJOIN, R sorted by popularity"
_SORTED_CACHED = "CHYBRIDJOIN, R sorted by popularity"
_UNSORTED = ", R unsorted"
_UNSORTED_CACHED = "CHYBRIDJOIN, R unsorted"


def measure_position(setting: FigureSetting) -> list[Panel]:
    """Twice the load that the join bears, looked up at parts of the queue; as a part of each line's best."""
    lines: list[Series] = []
    for name, contender, r in (
        (_SORTED, HYBRIDJOIN, zipf(relation_tuples(setting), sorted_by_rank=True)),
        (_SORTED_CACHED, CHYBRIDJOIN, zipf(relation_tuples(setting), sorted_by_rank=True)),
        (_UNSORTED_CACHED, CHYBRIDJOIN, skewed(setting)),
    ):
        points = lookup_position_series(
            _shedding(setting, contender, r), shares=setting.some(_SHARES, (0, 0.15, 0.5, 1))
        )
        fixed = [point for point in points if point.series != LONGEST_WAIT]
        best = max(point.service_rate for point in fixed)
        ours = next(point.service_rate for point in points if point.series == LONGEST_WAIT) / best
        lines.append(Series(name, tuple(Point(point.x, point.service_rate / best) for point in fixed)))
        ends = tuple(Point(point.x, ours) for point in (fixed[0], fixed[-1]))
        lines.append(Series(f"{name}: {LONGEST_WAIT}", ends, Origin.OURS))
    x = Axis("lookup position (% of the queue from its start, the newest tuple)")
    return [Panel(x, Axis("service rate (part of that at the best position)", from_zero=False), tuple(lines))]


def measure_service_rate(setting: FigureSetting) -> list[Panel]:
    """Ways of shedding, by arrival rate, for both orders of R."""
    r = relation_tuples(setting)
    return [
        _by_arrival_rate(setting, zipf(r, sorted_by_rank=True), ""),
        _by_arrival_rate(setting, skewed(setting), _UNSORTED),
    ]


def _by_arrival_rate(setting: FigureSetting, r: Workload, suffix: str) -> Panel:
    points = arrival_rate_series(_shedding(setting, CHYBRIDJOIN, r), overloads=setting.some(_OVERLOADS))
    rates = sorted({point.x for point in points})
    arrivals = Series(f"{_ARRIVALS}{suffix}", tuple(Point(rate, rate) for rate in rates), Origin.REFERENCE)
    lines = tuple(replace(line, name=f"{line.name}{suffix}") for line in _lines(points))
    order = "R unsorted" if suffix else "R sorted by popularity"
    x = Axis(f"stream arrival rate (tuples/s), {order}")
    return Panel(x, Axis("service rate (tuples/s)", log=True), (*lines, arrivals))


def _shedding(setting: FigureSetting, contender: Contender, r: Workload) -> SheddingSetting:
    disk, budget = setting.disk, memory(setting, _MEMORY_PERCENT)
    if not isinstance(disk, VirtualKind):
        raise WorkloadError(f"Load shedding is measured on a virtual disk only, not on {disk.name}.")
    page_rows = best_page_rows(contender, r, budget, disk)
    with disk.open(r, page_rows) as opened:
        tuples = _TURNOVERS * waiting_capacity(contender.join(opened.relation, budget))
    return SheddingSetting(
        r,
        budget,
        page_rows,
        tuples,
        tuples,
        cached=contender is CHYBRIDJOIN,
        disk=disk.profile,
        processor=disk.processor,
        watch=setting.watch,
    )


def _lines(points: Sequence[SheddingPoint]) -> tuple[Series, ...]:
    names = dict.fromkeys(point.series for point in points)
    return tuple(
        Series(
            name,
            tuple(Point(point.x, point.service_rate) for point in points if point.series == name),
            Origin.OURS if name == LONGEST_WAIT else Origin.PAPER,
        )
        for name in names
    )


def _falls_towards_the_end(curves: Curves) -> tuple[str, bool]:
    line = curves[_SORTED]
    first, last = line.points[0].y, line.points[-1].y
    return f"{first:.0%} of the best at the start, {last:.0%} at the end", first < 1 and last < 1


def _ours_is_best(curves: Curves) -> tuple[str, bool]:
    ratios = [curves[f"{name}: {LONGEST_WAIT}"].points[0].y for name in (_SORTED, _SORTED_CACHED, _UNSORTED_CACHED)]
    return f"{min(ratios):.2f}x to {max(ratios):.2f}x the best fixed position", min(ratios) >= 0.97


def _the_disk_loses_little(curves: Curves) -> tuple[str, bool]:
    ratio = curves["tuned, to network"].points[-1].y / curves["tuned, to disk"].points[-1].y
    # Runs that differ in their times differ in what is shed as well, by some per cent of the service rate.
    return f"{ratio:.2f}x", 0.95 < ratio < 1.25


POSITION = Figure(
    "003-7",
    "Lookup position under load shedding, overload 2x",
    (
        fact(
            "Away from the queue's start the service rate improves up to a position, then it decreases (003 §5.3.1)",
            "rises, then falls",
            _falls_towards_the_end,
        ),
        top_near(_SORTED, 15, 10, "The best position is at 15 % of the queue", "15 %"),
        ours(fact("A position that adapts finds the best by itself", "-", _ours_is_best)),
    ),
    measure_position,
    minutes_at_paper_scale=100,
    memory_at_paper_scale=5_000_000_000,
    assumption="The paper says neither how much was shed, here half of the stream, nor how R was ordered; where "
    "the best position lies depends on that and on the front stage. Memory 1 % of R.",
)
SERVICE_RATE = Figure(
    "003-8",
    "Service rate under load shedding: CHYBRIDJOIN",
    (
        ratio_at(
            _MOST,
            "tuned, to disk",
            "untuned",
            1.33,
            "Tuned load shedding performs 33 % better than untuned",
            cause=_MOSTLY_HITS,
        ),
        ratio_at(
            _MOST, "tuned, to disk", "upfront", 3.1, "and 3.1 times better than MESHJOIN's way of shedding (upfront)"
        ),
        ratio_at(
            _MOST,
            "tuned, to disk",
            "MESHJOIN",
            1.0,
            "MESHJOIN, without front stage and tuned shedding, has a very low service rate",
        ),
        fact(
            "Shedding to the network is slightly better than to disk, which does not lose much",
            "slightly above 1x",
            _the_disk_loses_little,
        ),
    ),
    measure_service_rate,
    minutes_at_paper_scale=60,
    memory_at_paper_scale=5_000_000_000,
)
