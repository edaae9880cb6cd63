"""000 Fig. 10(a) and 10(b): how long a stream tuple is processed, and how long it waits before."""

from __future__ import annotations

from spark_jobs.experiments.papers.claims import fact, is_faster
from spark_jobs.experiments.papers.contenders import BLOCKING_MESHJOIN, HYBRIDJOIN, INLJ, LONGEST_WAIT, MESHJOIN
from spark_jobs.experiments.papers.figure import Axis, Curves, Figure, Origin, Panel, Point, Series
from spark_jobs.experiments.papers.figure_setting import FigureSetting
from spark_jobs.experiments.papers.hybrid_join.hybrid_join_data import (
    RELATION_TUPLES,
    TUNED_RELATION,
    memory,
    workload,
)
from spark_jobs.experiments.papers.measured_lines import PROCESSING_TIME, Case, measure_lines
from spark_jobs.experiments.papers.measured_point import measure_arriving

_RATES = (62, 100, 125, 250, 500, 1_000, 2_000)
_SLOW = 100
_PROCESSING_RATE = 125
_ONE_INVOCATION = "MESHJOIN, one disk invocation: w / rate"


def measure_processing(setting: FigureSetting) -> list[Panel]:
    """Mean processing time by the size of R: of a stream that comes at a rate, and of one that never ends a wait."""
    relations = [workload(setting, tuples) for tuples in setting.some(RELATION_TUPLES)]
    x, y = Axis("tuples of R (millions)", log=True), Axis("processing time (s)", log=True)
    contenders = (BLOCKING_MESHJOIN, HYBRIDJOIN, LONGEST_WAIT)
    arriving: dict[str, list[Point]] = {contender.name: [] for contender in contenders}
    work = [(contender, r) for r in relations for contender in contenders]
    for contender, r in setting.each(work, lambda item: f"{item[0].name}, {item[1].key_count:,} tuples of R"):
        run = measure_arriving(setting, contender, r, memory(setting), _PROCESSING_RATE)
        arriving[contender.name].append(Point(r.key_count / 1e6, run.mean_processing))
    lines = tuple(Series(contender.name, tuple(arriving[contender.name]), contender.origin) for contender in contenders)
    cases = [Case(r.key_count / 1e6, r, memory(setting)) for r in relations]
    saturated = [contender.named(f"{contender.name}, saturated") for contender in (MESHJOIN, HYBRIDJOIN, LONGEST_WAIT)]
    return [Panel(x, y, lines), Panel(x, y, measure_lines(setting, saturated, cases, PROCESSING_TIME))]


def measure_waiting_times(setting: FigureSetting) -> list[Panel]:
    """Mean waiting time by the stream's arrival rate."""
    r, budget = workload(setting, TUNED_RELATION), memory(setting)
    points: dict[str, list[Point]] = {}
    contenders = (INLJ, BLOCKING_MESHJOIN, HYBRIDJOIN)
    work = [(contender, rate) for rate in setting.some(_RATES) for contender in contenders]
    for contender, rate in setting.each(work, lambda item: f"{item[0].name} at {item[1]:g}/s"):
        run = measure_arriving(setting, contender, r, budget, rate)
        points.setdefault(contender.name, []).append(Point(rate, round(run.mean_waiting, 9)))
        if contender is BLOCKING_MESHJOIN:
            points.setdefault(_ONE_INVOCATION, []).append(Point(rate, run.tuples_per_access / rate))
    lines = [
        Series(name, tuple(line), Origin.REFERENCE if name == _ONE_INVOCATION else Origin.PAPER)
        for name, line in points.items()
    ]
    x, y = Axis("stream arrival rate (tuples/s)", log=True), Axis("waiting time (s)", log=True)
    return [Panel(x, y, tuple(lines))]


def _slow_streams_wait_less_in_inlj(curves: Curves) -> tuple[str, bool]:
    hybrid, nested = curves["HYBRIDJOIN"].at(_SLOW).y, curves["INLJ"].at(_SLOW).y
    return f"at {_SLOW}/s {nested * 1e3:.2g} ms in INLJ, {hybrid * 1e3:.2g} ms in HYBRIDJOIN", nested < hybrid


def _fast_streams_wait_in_inlj(curves: Curves) -> tuple[str, bool]:
    points = [point.y for point in curves["INLJ"].points if point.x >= 125]
    hybrid = curves["HYBRIDJOIN"].points[-1].y
    return f"{points[0]:.3g} s to {points[-1]:.3g} s", points == sorted(points) and points[-1] > hybrid


PROCESSING = Figure(
    "000-10a",
    "Processing time by the size of R",
    (
        is_faster(
            "HYBRIDJOIN",
            ("MESHJOIN",),
            "HYBRIDJOIN's processing time is significantly smaller than MESHJOIN's (000 §6.2.1)",
            lower_is_better=True,
        ),
    ),
    measure_processing,
    minutes_at_paper_scale=2,
    memory_at_paper_scale=400_000_000,
    assumption="Left: 125 tuples/s arrive, the lowest rate of Table 2. Right: a saturated stream keeps memory full; "
    "then a tuple stays h_S / service rate in HYBRIDJOIN (Little) and half of that in MESHJOIN, which frees no memory "
    "before the cycle ends: there HYBRIDJOIN's stay is not shorter.",
)
WAITING = Figure(
    "000-10b",
    "Waiting time by the stream's arrival rate",
    (
        is_faster(
            "HYBRIDJOIN", ("MESHJOIN",), "Tuples wait longer in MESHJOIN than in HYBRIDJOIN", lower_is_better=True
        ),
        fact(
            "Below 150 tuples/s they wait longer in HYBRIDJOIN than in INLJ",
            "INLJ waits less when slow",
            _slow_streams_wait_less_in_inlj,
        ),
        fact("In INLJ a backlog grows with the arrival rate beyond that", "grows steeply", _fast_streams_wait_in_inlj),
    ),
    measure_waiting_times,
    minutes_at_paper_scale=3,
    memory_at_paper_scale=400_000_000,
    assumption="Steady arrivals; INLJ's backlog grows with time: here after some minutes, the paper's after 20. It "
    "keeps up with 110 tuples/s on a disk of 9 ms a seek.",
)
