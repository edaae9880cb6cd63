"""000 Fig. 11: calculated and measured cost of the three approaches."""

from __future__ import annotations

from spark_jobs.experiments.papers.claims import ours, predictions_hold
from spark_jobs.experiments.papers.contender import EARLY_RELEASE, HYBRIDJOIN, INLJ, LONGEST_WAIT, MESHJOIN
from spark_jobs.experiments.papers.figure import Axis, Figure, Panel
from spark_jobs.experiments.papers.hybrid_join.specification import MEMORIES, TUNED_RELATION, memory, workload
from spark_jobs.experiments.papers.lines import SECONDS_PER_TUPLE, Case, measure_lines
from spark_jobs.experiments.papers.setting import Setting

_OURS = (LONGEST_WAIT, EARLY_RELEASE)


def measure(setting: Setting) -> list[Panel]:
    """Seconds per stream tuple by memory."""
    r = workload(setting, TUNED_RELATION)
    budgets = [memory(setting, size) for size in setting.some(MEMORIES)]
    cases = [Case(budget / 1e6, r, budget) for budget in budgets]
    lines = measure_lines(setting, (HYBRIDJOIN, MESHJOIN, INLJ, *_OURS), cases, SECONDS_PER_TUPLE)
    return [Panel(Axis("memory (MB)"), Axis("cost of a stream tuple (s)", log=True), lines)]


FIGURE = Figure(
    "000-11",
    "Calculated and measured cost",
    (
        predictions_hold(
            ("HYBRIDJOIN", "MESHJOIN", "INLJ"), 0.1, "The predicted cost closely resembles the measured (000 §6.2.2)"
        ),
        ours(predictions_hold([contender.name for contender in _OURS], 0.12, "So does that of our own")),
    ),
    measure,
    minutes_at_paper_scale=2,
    memory_at_paper_scale=800_000_000,
    assumption="The paper does not say over what; here over memory, R = 2 million tuples.",
)
