"""003 Fig. 9(f): calculated and measured cost of all six algorithms."""

from __future__ import annotations

from spark_jobs.experiments.papers.caching.specification import COMPARED, MEMORY_PERCENTS, memory, skewed
from spark_jobs.experiments.papers.claims import ours, predictions_hold
from spark_jobs.experiments.papers.contender import CACHED_EARLY_RELEASE, CACHED_LONGEST_WAIT, CINLJ, INLJ
from spark_jobs.experiments.papers.figure import Axis, Figure, Panel
from spark_jobs.experiments.papers.lines import SECONDS_PER_TUPLE, Case, measure_lines
from spark_jobs.experiments.papers.setting import Setting

_ALL = (*COMPARED, CINLJ, INLJ)
_OURS = (CACHED_EARLY_RELEASE, CACHED_LONGEST_WAIT)


def measure(setting: Setting) -> list[Panel]:
    """Seconds per stream tuple by memory."""
    r = skewed(setting)
    percents = (MEMORY_PERCENTS[0], MEMORY_PERCENTS[len(MEMORY_PERCENTS) // 2], MEMORY_PERCENTS[-1])
    cases = [Case(percent, r, memory(setting, percent)) for percent in percents]
    lines = measure_lines(setting, (*_ALL, *_OURS), cases, SECONDS_PER_TUPLE)
    return [Panel(Axis("memory (% of R)"), Axis("cost of a stream tuple (s)", log=True), lines)]


FIGURE = Figure(
    "003-9f",
    "Calculated and measured cost",
    (
        predictions_hold(
            [contender.name for contender in _ALL], 0.1, "The calculated cost closely resembles the measured (003 §5.4)"
        ),
        ours(predictions_hold([contender.name for contender in _OURS], 0.15, "So does that of our own")),
    ),
    measure,
    minutes_at_paper_scale=30,
    memory_at_paper_scale=5_000_000_000,
    assumption="The paper does not say over what; here over memory.",
)
