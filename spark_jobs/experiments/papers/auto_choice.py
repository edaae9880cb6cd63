"""A figure of our own: the algorithm that chooses itself, beside the best of all fixed ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from spark_jobs.experiments.papers.caching.caching_data import relation_tuples
from spark_jobs.experiments.papers.claims import fact, ours
from spark_jobs.experiments.papers.contenders import Operator
from spark_jobs.experiments.papers.disks import VirtualKind
from spark_jobs.experiments.papers.figure import Axis, Curves, Figure, Origin, Panel, Point, Series
from spark_jobs.experiments.papers.figure_setting import FigureSetting
from spark_jobs.experiments.papers.measured_point import saturated_run
from spark_jobs.experiments.semi_stream.auto_join import AutoJoin
from spark_jobs.experiments.semi_stream.workloads import Workload, zipf
from spark_jobs.experiments.virtual_relation import HARD_DISK, SOLID_STATE_DISK
from spark_jobs.joins.semi_stream import ALGORITHMS, create
from spark_jobs.joins.semi_stream.theory.choice import PREDICTABLE
from spark_jobs.joins.semi_stream.theory.setting import PAPER_ERA

_TUPLES = 10_000_000
# With fewer, the sample of a 64th of memory of 1 % of R is too small to tell the skew from.
_LEAST_TUPLES = 100_000
_EXPONENTS = (0.0, 0.5, 1.0, 1.2)
_FEW_EXPONENTS = (0.0, 1.0)
_MEMORY_PERCENTS = (1, 10)
_ORDERS = {"sorted by popularity": True, "unsorted": False}
_DISKS = (VirtualKind(HARD_DISK, PAPER_ERA), VirtualKind(SOLID_STATE_DISK, PAPER_ERA))
# All read R in the same pages, which take this part of memory: AutoJoin does not choose their size.
_PAGE_PART = 1 / 10
# Multiples of what memory holds, in stream tuples: a queue begins full of recent tuples, which are settled faster than
# those it holds later; and AutoJoin samples the stream before it changes.
_STREAM_TUPLE_BYTES = 43
_WARM_UP, _MEASURED, _AUTO_WARM_UP = 12, 6, 20
_PARTS = 100
_LEAST = 0.9
# One lookup a tuple is never the best here; and MESHJOIN is never better than with early release.
_RIVALS = tuple(
    name
    for name in PREDICTABLE
    if ALGORITHMS[name].reads_pages and ("mesh_join" not in name or "early_release" in name)
)


class _Work(NamedTuple):
    """What a join did while it was measured."""

    settled: int
    seconds: float
    pages_read: int


@dataclass(frozen=True)
class _Case:
    """A workload with a budget."""

    line: str
    r: Workload
    exponent: float
    memory_bytes: int

    @property
    def page_rows(self) -> int:
        """Tuples of R on a page."""
        return int(self.memory_bytes * _PAGE_PART / self.r.tuple_bytes)

    def measured(self, disk: VirtualKind, make: Operator, warm_up: int) -> _Work:
        """A join at work, over a multiple of as many page loads as R has pages: a scan settles most on popular ones."""
        held = self.memory_bytes // _STREAM_TUPLE_BYTES
        with disk.open(self.r, self.page_rows) as opened:
            run = saturated_run(make(opened.relation, self.memory_bytes), opened, self.r, seed=1)
            run.measure(warm_up * held)
            work, loads = _Work(0, 0.0, 0), 0
            while not loads or work.pages_read < loads:
                part = run.measure(max(1, _MEASURED * held // _PARTS))
                work = _Work(
                    work.settled + part.settled, work.seconds + part.seconds, work.pages_read + part.pages_read
                )
                if not loads and work.settled >= _MEASURED * held:
                    loads = -(-work.pages_read // opened.relation.page_count) * opened.relation.page_count
        return work


def measure(setting: FigureSetting) -> list[Panel]:
    """AutoJoin's service rate as a part of the best fixed algorithm's, by skew, order of R, memory and disk."""
    points: dict[str, dict[str, list[Point]]] = {disk.name: {} for disk in _DISKS}
    for case in setting.each(list(_cases(setting)), lambda case: f"{case.line}, exponent {case.exponent:g}"):
        rivals = {name: case.measured(_DISKS[0], partial(create, name), _WARM_UP) for name in _RIVALS}
        for disk in _DISKS:
            rates = {name: _service_rate_on(disk, case, rival) for name, rival in rivals.items()}
            points[disk.name].setdefault(case.line, []).append(_beside_the_best(disk, case, rates))
    x = Axis("Zipf exponent")
    return [
        Panel(
            x,
            Axis(f"auto's service rate / the best's, {disk}", from_zero=False),
            tuple(Series(f"{line}, {disk}", tuple(found), Origin.OURS) for line, found in lines.items()),
        )
        for disk, lines in points.items()
    ]


def _cases(setting: FigureSetting) -> Iterator[_Case]:
    tuples = max(_LEAST_TUPLES, relation_tuples(setting, _TUPLES))
    for order, sorted_by_rank in _ORDERS.items():
        for percent in _MEMORY_PERCENTS:
            for exponent in setting.some(_EXPONENTS, _FEW_EXPONENTS):
                r = zipf(tuples, exponent, sorted_by_rank=sorted_by_rank)
                yield _Case(f"R {order}, memory {percent} %", r, exponent, r.relation_bytes * percent // 100)


def _service_rate_on(disk: VirtualKind, case: _Case, work: _Work) -> float:
    """What was measured on the first disk, on another: a saturated join reads the same pages whatever they cost."""
    size = case.page_rows * case.r.tuple_bytes
    dearer = disk.profile.seconds(size) - _DISKS[0].profile.seconds(size)
    return work.settled / (work.seconds + work.pages_read * dearer)


def _beside_the_best(disk: VirtualKind, case: _Case, rates: dict[str, float]) -> Point:
    made: list[AutoJoin] = []

    def auto_join(relation: Any, memory_bytes: int) -> AutoJoin:
        reading, processor = disk.costs(case.r)
        made.append(AutoJoin(relation, memory_bytes, reading, processor))
        return made[0]

    work = case.measured(disk, auto_join, _AUTO_WARM_UP)
    own = work.settled / work.seconds
    best = max(rates, key=lambda name: rates[name])
    choice = made[0].decisions[-1]
    share = f" with {choice.front_share:.0%} for the front stage" if choice.front_share else ""
    note = f"chose {choice.algorithm}{share}: {own:.0f}/s; best fixed {best}: {rates[best]:.0f}/s"
    return Point(case.exponent, own / rates[best], note=note)


def _never_far_behind(curves: Curves) -> tuple[str, bool]:
    ratios = [point.y for series in curves.all() for point in series.points]
    below = sum(ratio < _LEAST for ratio in ratios)
    return f"{min(ratios):.2f}x to {max(ratios):.2f}x, {below} of {len(ratios)} below {_LEAST:g}x", not below


FIGURE = Figure(
    "auto",
    "Algorithm auto beside the best fixed algorithm",
    (ours(fact("Auto is never more than 10 % slower than the best fixed algorithm", "-", _never_far_behind)),),
    measure,
    minutes_at_paper_scale=90,
    memory_at_paper_scale=3_000_000_000,
    assumption="Always on both virtual disks, with the processor of 2010. Pages take a tenth of memory for all. "
    "The best is the best measured of all algorithms that read pages, with their usual front stage of 15 %.",
)
