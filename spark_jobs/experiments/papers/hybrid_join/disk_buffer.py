"""000 Fig. 6: the disk buffer's size, tuned."""

from __future__ import annotations

from spark_jobs.experiments.papers.claims import line_moves, rises_then_falls
from spark_jobs.experiments.papers.contender import HYBRIDJOIN, LONGEST_WAIT
from spark_jobs.experiments.papers.figure import Axis, Figure, Panel, Point, Series
from spark_jobs.experiments.papers.hybrid_join.specification import TUNED_RELATION, memory, workload
from spark_jobs.experiments.papers.point import measure_point
from spark_jobs.experiments.papers.setting import Setting
from spark_jobs.experiments.semi_stream.workloads import TUPLE_BYTES

_BUFFER_KILOBYTES = (15, 60, 120, 240, 480, 960, 1_920, 3_840, 7_680)


def measure(setting: Setting) -> list[Panel]:
    """Service rate, and seconds of reading per page, by the disk buffer's size."""
    r, budget = workload(setting, TUNED_RELATION), memory(setting)
    contenders = (HYBRIDJOIN, LONGEST_WAIT)
    rates: dict[str, list[Point]] = {contender.name: [] for contender in contenders}
    costs = []
    # The disk buffer and the index of its keys leave memory for stream tuples.
    sizes = [size for size in _BUFFER_KILOBYTES if 2000 * size < budget]
    for size in setting.each(setting.some(sizes), lambda size: f"{size:g} kB"):
        for contender in contenders:
            run = measure_point(setting, contender, r, budget, page_rows=int(size * 1000 / TUPLE_BYTES))
            rates[contender.name].append(Point(size, run.measurement.service_rate, run.predicted_rate))
            if contender is HYBRIDJOIN:
                costs.append(Point(size, 1e3 * run.measurement.seconds / run.measurement.pages_read))
    x = Axis("disk buffer (kB)", log=True)
    lines = tuple(Series(contender.name, tuple(rates[contender.name]), contender.origin) for contender in contenders)
    return [
        Panel(x, Axis("service rate (tuples/s)"), lines),
        Panel(x, Axis("cost of a page load (ms)", log=True), (Series("cost of a loop iteration", tuple(costs)),)),
    ]


FIGURE = Figure(
    "000-6",
    "Tuning HYBRIDJOIN's disk buffer",
    (
        rises_then_falls(
            "HYBRIDJOIN", "The service rate grows with the disk buffer up to a size, then decreases (000 §4.5)"
        ),
        line_moves("cost of a loop iteration", rises=True, text="The I/O cost of a large disk buffer grows rapidly"),
    ),
    measure,
    minutes_at_paper_scale=1,
    memory_at_paper_scale=300_000_000,
)
