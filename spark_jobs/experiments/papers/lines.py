"""Lines of a figure: each contender measured at each value of a parameter, with several seeds if the paper did so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spark_jobs.experiments.papers.confidence import interval
from spark_jobs.experiments.papers.contender import Contender
from spark_jobs.experiments.papers.figure import Point, Series
from spark_jobs.experiments.papers.point import Measured, measure_point
from spark_jobs.experiments.papers.setting import Setting
from spark_jobs.experiments.semi_stream.workloads import Workload


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
    setting: Setting,
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
