"""003 Fig. 9(a) and 9(c): how sensitive CMESHJOIN is to the size of its front stage and of its disk buffer."""

from __future__ import annotations

from spark_jobs.experiments.papers.caching.specification import memory, skewed
from spark_jobs.experiments.papers.claims import fact, rises_then_falls, top_near
from spark_jobs.experiments.papers.contender import CMESHJOIN
from spark_jobs.experiments.papers.figure import Axis, Cause, Curves, Figure, Panel, Point, Series
from spark_jobs.experiments.papers.point import measure_point
from spark_jobs.experiments.papers.prediction import best_page_rows
from spark_jobs.experiments.papers.setting import Setting

_SHARES = (0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75)
_PARTS_OF_BEST = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 1.5, 2, 3)
_MUST_HIT_MORE = Cause(
    "the MESHJOIN phase keeps a quarter of memory, so the front stage pays if it hits more than 75 %: with R = 100 "
    "million it does, with a smaller R the same part holds a smaller share of the stream",
    "test_a_front_stage_of_three_quarters_of_memory_pays_with_the_papers_relation_only",
)
_SMALL_MEMORY_PERCENT = 1


def measure_front_share(setting: Setting) -> list[Panel]:
    """The front stage's share of memory varies."""
    r, budget = skewed(setting), memory(setting)
    points = []
    for share in setting.each(setting.some(_SHARES), lambda share: f"front stage {share:.0%}"):
        run = measure_point(setting, CMESHJOIN.with_front_share(share), r, budget)
        points.append(Point(100 * share, run.measurement.service_rate, run.predicted_rate))
    x, y = Axis("front stage (% of memory)"), Axis("service rate (tuples/s)")
    return [Panel(x, y, (Series("CMESHJOIN", tuple(points)),))]


def measure_disk_buffer(setting: Setting) -> list[Panel]:
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
