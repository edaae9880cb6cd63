"""003 Fig. 9(a) to 9(e): CMESHJOIN by front stage, threshold and disk buffer, as it begins, and as R grows."""

from __future__ import annotations

from statistics import fmean

from spark_jobs.errors import WorkloadError
from spark_jobs.experiments.papers.caching.caching_data import memory, skewed
from spark_jobs.experiments.papers.claims import fact, rises_then_falls, top_near
from spark_jobs.experiments.papers.contenders import CMESHJOIN
from spark_jobs.experiments.papers.figure import Axis, Cause, Curves, Figure, Origin, Panel, Point, Series
from spark_jobs.experiments.papers.figure_setting import FigureSetting
from spark_jobs.experiments.papers.measured_point import (
    best_page_rows,
    measure_point,
    run_length,
    saturated_run,
    waiting_capacity,
)
from spark_jobs.experiments.virtual_relation import VirtualRelation
from spark_jobs.joins.semi_stream.admission_threshold import FixedThreshold

_SHARES = (0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75)
_PARTS_OF_BEST = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 1.5, 2, 3)
_MUST_HIT_MORE = Cause(
    "the MESHJOIN phase keeps a quarter of memory, so the front stage pays if it hits more than 75 %: with R = 100 "
    "million it does, with a smaller R the same part holds a smaller share of the stream",
    "test_a_front_stage_of_three_quarters_of_memory_pays_with_the_papers_relation_only",
)
_SMALL_MEMORY_PERCENT = 1

_THRESHOLDS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
_ITERATIONS = 1_000
_READINGS = 25
_PUBLISHED_SHARE = 0.51

_FIRST, _SECOND = 50_000_000, 100_000_000
_GROWTH_READINGS, _READINGS_BEFORE, _LAST_READINGS = 30, 5, 5
_KEPT = 0.85


def measure_front_share(setting: FigureSetting) -> list[Panel]:
    """The front stage's share of memory varies."""
    r, budget = skewed(setting), memory(setting)
    points = []
    for share in setting.each(setting.some(_SHARES), lambda share: f"front stage {share:.0%}"):
        run = measure_point(setting, CMESHJOIN.with_front_share(share), r, budget)
        points.append(Point(100 * share, run.measurement.service_rate, run.predicted_rate))
    x, y = Axis("front stage (% of memory)"), Axis("service rate (tuples/s)")
    return [Panel(x, y, (Series("CMESHJOIN", tuple(points)),))]


def measure_disk_buffer(setting: FigureSetting) -> list[Panel]:
    """The disk buffer varies; only what the MESHJOIN phase joins counts."""
    r, budget = skewed(setting), memory(setting, _SMALL_MEMORY_PERCENT)
    best = best_page_rows(CMESHJOIN, r, budget, setting.disk)
    points = []
    for part in setting.each(
        setting.some(_PARTS_OF_BEST, (1 / 8, 1, 3)), lambda part: f"disk buffer {part:g} of the best"
    ):
        page_rows = max(1, int(part * best))
        run = measure_point(setting, CMESHJOIN, r, budget, page_rows=page_rows)
        measured = run.measurement
        predicted = None if run.predicted_rate is None else run.predicted_rate * (1 - measured.hit_ratio)
        rate = measured.service_rate * (1 - measured.hit_ratio)
        points.append(Point(page_rows * r.tuple_bytes / 1e3, rate, predicted))
    x, y = Axis("disk buffer (kB)", log=True), Axis("service rate of the MESHJOIN phase (tuples/s)")
    return [Panel(x, y, (Series("MESHJOIN phase", tuple(points)),))]


def _large_front_stage(curves: Curves) -> tuple[str, bool]:
    line = curves["CMESHJOIN"]
    ratio = line.at(75).y / line.at(0).y
    return f"{ratio:.2f}x", ratio > 1


FRONT_SHARE = Figure(
    "003-9a",
    "Sensitivity to the size of the front stage",
    (
        rises_then_falls("CMESHJOIN", "The service rate improves with the front stage up to a maximum, then decreases"),
        top_near("CMESHJOIN", 15, 5, "The maximum is at about 15 % of memory", "15 %"),
        fact(
            "With 75 % of memory the service rate is still greater than without a front stage",
            "above 1x",
            _large_front_stage,
            cause=_MUST_HIT_MORE,
            contradicted=True,
        ),
    ),
    measure_front_share,
    minutes_at_paper_scale=15,
    memory_at_paper_scale=5_000_000_000,
)
DISK_BUFFER = Figure(
    "003-9c",
    "Sensitivity to the size of the disk buffer: memory 1 % of R",
    (
        rises_then_falls(
            "MESHJOIN phase", "The service rate rises with the disk buffer up to a size, then falls (003 §5.4)"
        ),
    ),
    measure_disk_buffer,
    minutes_at_paper_scale=5,
    memory_at_paper_scale=2_000_000_000,
)


def measure_threshold(setting: FigureSetting) -> list[Panel]:
    """A threshold that does not move, and what the front stage then joins a second."""
    r, budget = skewed(setting), memory(setting)
    page_rows = best_page_rows(CMESHJOIN, r, budget, setting.disk)
    points = []
    for threshold in setting.each(setting.some(_THRESHOLDS), lambda value: f"threshold {value:g}"):
        contender = CMESHJOIN.with_threshold(FixedThreshold(threshold))
        with setting.disk.open(r, page_rows) as opened:
            join = contender.join(opened.relation, budget)
            run = saturated_run(join, opened, r, seed=1)
            length = run_length(join, contender)
            run.measure(length.warm_up)
            measured = run.measure(length.measured)
        points.append(Point(threshold, measured.front_stage_hits / measured.seconds))
    x, y = Axis("threshold (matches)"), Axis("service rate of the front stage (tuples/s)")
    return [Panel(x, y, (Series("front stage", tuple(points)),))]


def measure_role(setting: FigureSetting) -> list[Panel]:
    """From the first of 1000 iterations on: the share of the stream that the front stage has joined so far."""
    r, budget = skewed(setting), memory(setting)
    page_rows = best_page_rows(CMESHJOIN, r, budget, setting.disk)
    points = []
    with setting.disk.open(r, page_rows) as opened:
        join = CMESHJOIN.join(opened.relation, budget)
        run = saturated_run(join, opened, r, seed=1)
        # An iteration reads a page and takes a chunk of the queue in.
        reading = max(1, _ITERATIONS // _READINGS * waiting_capacity(join) // opened.relation.page_count)
        hits = settled = pages = 0
        while pages < _ITERATIONS:
            setting.watch(f"iteration {pages}", pages / _ITERATIONS)
            measured = run.measure(reading)
            hits, settled, pages = (
                hits + measured.front_stage_hits,
                settled + measured.settled,
                pages + measured.accesses,
            )
            points.append(Point(pages, 100 * hits / settled))
    x, y = Axis("iterations"), Axis("joined by the front stage so far (% of the stream)")
    return [Panel(x, y, (Series("front stage", tuple(points)),))]


def _steep_then_flat(curves: Curves) -> tuple[str, bool]:
    line = curves["front stage"]
    high, middle, low = line.points[-1].y, line.points[len(line.points) // 2].y, line.top.y
    return f"{high:,.0f}/s at 10, {middle:,.0f}/s at {line.points[len(line.points) // 2].x:g}, {low:,.0f}/s at best", (
        high < middle <= low
    )


def _half_of_the_stream(curves: Curves) -> tuple[str, bool]:
    share = curves["front stage"].points[-1].y
    return f"{share:.0f} %", share >= 100 * _PUBLISHED_SHARE


THRESHOLD = Figure(
    "003-9b",
    "Sensitivity to the threshold of the front stage",
    (
        fact(
            "As the threshold falls from 10 the service rate rises, but only down to a certain threshold",
            "rises, then flat",
            _steep_then_flat,
        ),
    ),
    measure_threshold,
    minutes_at_paper_scale=20,
    memory_at_paper_scale=5_000_000_000,
    assumption="A frequency is what the recorder remembers of a tuple, not the matches of one page load.",
)
ROLE = Figure(
    "003-9d",
    "The front stage's part in 1000 iterations, begun with an empty cache",
    (
        fact(
            "About 51 % of the stream is joined by the front stage (003 §5.4)", "51 %", _half_of_the_stream, number=True
        ),
    ),
    measure_role,
    minutes_at_paper_scale=5,
    memory_at_paper_scale=5_000_000_000,
)


def measure_growth(setting: FigureSetting) -> list[Panel]:
    """Service rate by time; R and the stream's keys double in the middle."""
    before, after = skewed(setting, _FIRST), skewed(setting, _SECOND)
    budget = memory(setting)
    page_rows = best_page_rows(CMESHJOIN, after, budget, setting.disk)
    with setting.disk.open(before, page_rows) as opened:
        relation = opened.relation
        if not isinstance(relation, VirtualRelation):
            raise WorkloadError(f"R grows while the join runs on a virtual disk only, not on {setting.disk.name}.")
        join = CMESHJOIN.join(relation, budget)
        run = saturated_run(join, opened, before, seed=1)
        reading = sum(run_length(join, CMESHJOIN)) // _READINGS_BEFORE
        points, seconds = [], 0.0
        for number in setting.each(range(_GROWTH_READINGS), lambda number: f"reading {number + 1}"):
            if number == _READINGS_BEFORE:
                relation.grow(after.key_count)
                run.draw_from(after.stream(seed=2))
            measured = run.measure(reading)
            seconds += measured.seconds
            points.append(Point(seconds, measured.service_rate))
    settled = measure_point(setting, CMESHJOIN, after, budget, page_rows=page_rows).measurement.service_rate
    expected = Series(
        "begun with the doubled R", (Point(points[0].x, settled), Point(points[-1].x, settled)), Origin.REFERENCE
    )
    x, y = Axis("time (s)"), Axis("service rate (tuples/s)")
    return [Panel(x, y, (Series("CMESHJOIN", tuple(points)), expected))]


def _loses_no_more_than_expected(curves: Curves) -> tuple[str, bool]:
    rates = [point.y for point in curves["CMESHJOIN"].points]
    before, after = rates[_READINGS_BEFORE - 1], fmean(rates[-_LAST_READINGS:])
    expected = curves["begun with the doubled R"].points[-1].y
    return f"{after / expected:.0%} of a run on the doubled R", after < before and after >= _KEPT * expected


GROWTH = Figure(
    "003-9e",
    "R grows from 50 to 100 million tuples while CMESHJOIN runs",
    (
        fact(
            "The service rate falls as R doubles, and no additional service rate is lost (003 §5.4)",
            "no additional loss",
            _loses_no_more_than_expected,
        ),
    ),
    measure_growth,
    minutes_at_paper_scale=10,
    memory_at_paper_scale=5_000_000_000,
)
