"""003 Fig. 9(e): R doubles while CMESHJOIN runs."""

from __future__ import annotations

from statistics import fmean

from spark_jobs.errors import WorkloadError
from spark_jobs.experiments.papers.caching.specification import memory, skewed
from spark_jobs.experiments.papers.claims import fact
from spark_jobs.experiments.papers.contender import CMESHJOIN
from spark_jobs.experiments.papers.figure import Axis, Curves, Figure, Origin, Panel, Point, Series
from spark_jobs.experiments.papers.point import measure_point, saturated_run
from spark_jobs.experiments.papers.prediction import best_page_rows
from spark_jobs.experiments.papers.run_length import run_length
from spark_jobs.experiments.papers.setting import Setting
from spark_jobs.experiments.virtual_relation import VirtualRelation

_FIRST, _SECOND = 50_000_000, 100_000_000
_READINGS, _READINGS_BEFORE, _LAST_READINGS = 30, 5, 5
_KEPT = 0.85


def measure(setting: Setting) -> list[Panel]:
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
        for number in setting.each(range(_READINGS), lambda number: f"reading {number + 1}"):
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


FIGURE = Figure(
    "003-9e",
    "R grows from 50 to 100 million tuples while CMESHJOIN runs",
    (
        fact(
            "The service rate falls as R doubles, and no additional service rate is lost (003 §5.4)",
            "no additional loss",
            _loses_no_more_than_expected,
        ),
    ),
    measure,
    minutes_at_paper_scale=10,
    memory_at_paper_scale=5_000_000_000,
)
