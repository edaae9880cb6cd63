"""003 Fig. 9(b) and 9(d): the front stage with a fixed threshold, and its part in CMESHJOIN's iterations."""

from __future__ import annotations

from spark_jobs.experiments.papers.caching.specification import memory, skewed
from spark_jobs.experiments.papers.claims import fact
from spark_jobs.experiments.papers.contender import CMESHJOIN
from spark_jobs.experiments.papers.figure import Axis, Curves, Figure, Panel, Point, Series
from spark_jobs.experiments.papers.point import saturated_run
from spark_jobs.experiments.papers.prediction import best_page_rows
from spark_jobs.experiments.papers.run_length import run_length, waiting_capacity
from spark_jobs.experiments.papers.setting import Setting
from spark_jobs.joins.semi_stream.admission_threshold import FixedThreshold

_THRESHOLDS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
_ITERATIONS = 1_000
_READINGS = 25
_PUBLISHED_SHARE = 0.51


def measure_threshold(setting: Setting) -> list[Panel]:
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


def measure_role(setting: Setting) -> list[Panel]:
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
