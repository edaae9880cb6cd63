"""003 Fig. 6: processing time by the size of R."""

from __future__ import annotations

from spark_jobs.experiments.papers.caching.specification import COMPARED, RELATION_SIZES, memory, skewed
from spark_jobs.experiments.papers.claims import fact, is_faster
from spark_jobs.experiments.papers.figure import Axis, Curves, Figure, Panel
from spark_jobs.experiments.papers.lines import PROCESSING_TIME, Case, measure_lines
from spark_jobs.experiments.papers.setting import Setting


def measure(setting: Setting) -> list[Panel]:
    """R varies, memory is fixed."""
    relations = [skewed(setting, tuples) for tuples in setting.some(RELATION_SIZES)]
    cases = [Case(r.key_count / 1e6, r, memory(setting)) for r in relations]
    lines = measure_lines(setting, COMPARED, cases, PROCESSING_TIME)
    return [Panel(Axis("tuples of R (millions)"), Axis("processing time (s)", log=True), lines)]


def _difference_grows(curves: Curves) -> tuple[str, bool]:
    slow, fast = curves["MESHJOIN"].points, curves["CMESHJOIN"].points
    first, last = slow[0].y - fast[0].y, slow[-1].y - fast[-1].y
    return f"{first:.3g} s to {last:.3g} s", last > first


FIGURE = Figure(
    "003-6",
    "Processing time by the size of R: memory 1.12 GB, skew 1",
    (
        is_faster(
            "CMESHJOIN",
            ("MESHJOIN",),
            "CMESHJOIN's processing time is significantly smaller than MESHJOIN's (003 §5.2.2)",
            lower_is_better=True,
        ),
        is_faster(
            "CHYBRIDJOIN",
            ("HYBRIDJOIN",),
            "CHYBRIDJOIN's processing time is significantly smaller than HYBRIDJOIN's",
            lower_is_better=True,
        ),
        fact("The difference grows with R, particularly for CMESHJOIN", "grows", _difference_grows),
    ),
    measure,
    minutes_at_paper_scale=20,
    memory_at_paper_scale=5_000_000_000,
)
