"""003 Fig. 5(g): a stream that moves through R's domain, by memory."""

from __future__ import annotations

from spark_jobs.experiments.papers.caching.specification import (
    MEMORY_PERCENTS,
    memory,
    relation_tuples,
)
from spark_jobs.experiments.papers.claims import fact, greatest_ratio
from spark_jobs.experiments.papers.contender import CMESHJOIN, MESHJOIN, SSIJ
from spark_jobs.experiments.papers.figure import Axis, Cause, Curves, Figure, Panel, Series
from spark_jobs.experiments.papers.lines import Case, measure_lines
from spark_jobs.experiments.papers.setting import Setting
from spark_jobs.experiments.semi_stream.workloads import temporal_locality

_TUPLES_PER_KEY = (1, 10, 20)
_INTERVAL_TUPLES = 2_000_000

_LEARNS_TOO_LATE = Cause(
    "MESHJOIN finds a match half a cycle after a tuple came, which with memory of 10 % of R is longer than an "
    "interval, so that the front stage learns what was frequent in former ones",
    "test_the_front_stage_learns_an_interval_after_it_is_over",
)
_SAME_WORK = Cause(
    "why the published MESHJOIN falls with N is not known: here a stream tuple meets its N tuples at once, so that "
    "nothing grows with N; and the front stage learns what was frequent in former intervals",
    _LEARNS_TOO_LATE.test,
)


def measure(setting: Setting) -> list[Panel]:
    """MESHJOIN and CMESHJOIN for several N."""
    lines: list[Series] = []
    for number in _TUPLES_PER_KEY:
        r = temporal_locality(relation_tuples(setting), number, relation_tuples(setting, _INTERVAL_TUPLES))
        cases = [Case(percent, r, memory(setting, percent)) for percent in setting.some(MEMORY_PERCENTS)]
        contenders = [contender.named(f"{contender.name}, N = {number}") for contender in (CMESHJOIN, MESHJOIN, SSIJ)]
        lines += measure_lines(setting, contenders, cases)
    return [Panel(Axis("memory (% of R)"), Axis("service rate (tuples/s)", log=True), tuple(lines))]


def _falls_slower(curves: Curves) -> tuple[str, bool]:
    """Service rate at N = 20 as a part of that at N = 1, with most memory."""
    few, many = _TUPLES_PER_KEY[0], _TUPLES_PER_KEY[-1]
    kept = {
        name: curves[f"{name}, N = {many}"].points[-1].y / curves[f"{name}, N = {few}"].points[-1].y
        for name in ("CMESHJOIN", "MESHJOIN")
    }
    told = ", ".join(f"{name} keeps {part:.0%}" for name, part in kept.items())
    return told, kept["MESHJOIN"] < kept["CMESHJOIN"] < 1


FIGURE = Figure(
    "003-5g",
    "Temporal locality: 25 intervals, each in a 25th of R's domain; each key stands in N tuples",
    (
        greatest_ratio(
            "CMESHJOIN, N = 1",
            "MESHJOIN, N = 1",
            6.5,
            "For N = 1 CMESHJOIN is 6.5 times as fast as MESHJOIN",
            cause=_LEARNS_TOO_LATE,
        ),
        greatest_ratio(
            "CMESHJOIN, N = 20",
            "MESHJOIN, N = 20",
            10,
            "For N = 20 it is about 10 times as fast",
            cause=_LEARNS_TOO_LATE,
            contradicted=True,
        ),
        fact(
            "From N = 1 to N = 20 CMESHJOIN's service rate falls, but slower than MESHJOIN's",
            "falls slower",
            _falls_slower,
            cause=_SAME_WORK,
            contradicted=True,
        ),
    ),
    measure,
    minutes_at_paper_scale=20,
    memory_at_paper_scale=5_000_000_000,
    assumption="After the last interval the first follows. A stream tuple is joined with its N tuples of R at once.",
)
