"""Lines of a figure: each contender measured at each value of a parameter, with several seeds if the paper did so."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scipy.special import stdtrit

from spark_jobs.experiments.papers.contenders import Contender
from spark_jobs.experiments.papers.figure import Point, Series
from spark_jobs.experiments.papers.figure_setting import FigureSetting
from spark_jobs.experiments.papers.measured_point import Measured, measure_point
from spark_jobs.experiments.semi_stream.workloads import Workload


class Interval(NamedTuple):
    """A mean with the ends of its 95 % confidence interval; None where one run tells nothing of it."""

    mean: float
    low: float | None
    high: float | None


def interval(values: Sequence[float]) -> Interval:
    """Mean and interval, by Student's t, of at least one value."""
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Interval(mean, None, None)
    half = stdtrit(len(values) - 1, 0.975) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


@dataclass(frozen=True)
class Case:
    """What all contenders meet at one value of the parameter.

    Attributes:
        x: the value.
        workload: R and the stream.
        memory_bytes: everybody's budget.
    """

    x: float
    workload: Workload
    memory_bytes: int


@dataclass(frozen=True)
class Quantity:
    """What a line shows.

    Attributes:
        measured: of a measured point.
        predicted: by the cost model, of the same point.
    """

    measured: Callable[[Measured], float]
    predicted: Callable[[Measured], float | None]


SERVICE_RATE = Quantity(lambda m: m.measurement.service_rate, lambda m: m.predicted_rate)
SECONDS_PER_TUPLE = Quantity(
    lambda m: 1 / m.measurement.service_rate, lambda m: None if m.predicted_rate is None else 1 / m.predicted_rate
)
PROCESSING_TIME = Quantity(lambda m: m.measurement.mean_processing, lambda m: m.predicted_processing)


def measure_lines(
    setting: FigureSetting,
    contenders: Sequence[Contender],
    cases: Sequence[Case],
    quantity: Quantity = SERVICE_RATE,
    seeds: Sequence[int] = (1,),
) -> tuple[Series, ...]:
    """Measure every contender in every case, once for each seed."""
    points: dict[str, list[Point]] = {contender.name: [] for contender in contenders}
    work = [(contender, case) for case in cases for contender in contenders]
    for contender, case in setting.each(work, lambda item: f"{item[0].name} at {item[1].x:g}"):
        runs = [measure_point(setting, contender, case.workload, case.memory_bytes, seed=seed) for seed in seeds]
        mean, low, high = interval([quantity.measured(run) for run in runs])
        points[contender.name].append(Point(case.x, mean, quantity.predicted(runs[0]), low, high))
    return tuple(Series(contender.name, tuple(points[contender.name]), contender.origin) for contender in contenders)
