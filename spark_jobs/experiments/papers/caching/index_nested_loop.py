"""003 Fig. 5(c): what the front stage alone does, before an index nested loop join."""

from __future__ import annotations

from spark_jobs.experiments.papers.caching.specification import (
    FRONT_STAGE_BOUND,
    RELATION_SIZES,
    memory,
    skewed,
)
from spark_jobs.experiments.papers.claims import greatest_ratio, is_faster
from spark_jobs.experiments.papers.contender import BATCHED_INLJ, CINLJ, INLJ
from spark_jobs.experiments.papers.figure import Axis, Figure, Panel
from spark_jobs.experiments.papers.lines import Case, measure_lines
from spark_jobs.experiments.papers.setting import Setting


def measure(setting: Setting) -> list[Panel]:
    """R varies, memory is fixed."""
    relations = [skewed(setting, tuples) for tuples in setting.some(RELATION_SIZES)]
    cases = [Case(r.key_count / 1e6, r, memory(setting)) for r in relations]
    lines = measure_lines(setting, (CINLJ, INLJ, BATCHED_INLJ), cases)
    return [Panel(Axis("tuples of R (millions)"), Axis("service rate (tuples/s)"), lines)]


FIGURE = Figure(
    "003-5c",
    "INLJ and CINLJ: service rate by the size of R",
    (
        greatest_ratio("CINLJ", "INLJ", 2.5, "CINLJ performs up to 2.5 times as fast as INLJ", cause=FRONT_STAGE_BOUND),
        is_faster("CINLJ", ("INLJ",), "CINLJ is faster than INLJ for every size of R"),
    ),
    measure,
    minutes_at_paper_scale=25,
    memory_at_paper_scale=3_000_000_000,
)
