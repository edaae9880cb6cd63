"""A figure of a paper: what it shows, what the paper says about it, and what came out here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_jobs.experiments.papers.figure_setting import FigureSetting


class Origin(Enum):
    """Who drew a line first: the paper, or this project in the same figure."""

    PAPER = "paper"
    OURS = "ours"
    REFERENCE = "reference"


@dataclass(frozen=True)
class Axis:
    """What an axis shows, with its unit; whether its scale is logarithmic, and if not, whether it begins at 0."""

    label: str
    log: bool = False
    from_zero: bool = True


@dataclass(frozen=True)
class Point:
    """A measured point.

    Attributes:
        x: the parameter.
        y: what was measured; the mean, where there are several seeds.
        predicted: what the cost model says, if there is one.
        low: lower end of the 95 % confidence interval, if there are several seeds.
        high: its upper end.
        note: what else the table says of it.
    """

    x: float
    y: float
    predicted: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Series:
    """A line of a figure: points in order of x."""

    name: str
    points: tuple[Point, ...]
    origin: Origin = Origin.PAPER

    def at(self, x: float) -> Point:
        """The point whose x is nearest."""
        return min(self.points, key=lambda point: abs(point.x - x))

    @property
    def top(self) -> Point:
        """The highest point."""
        return max(self.points, key=lambda point: point.y)


@dataclass(frozen=True)
class Panel:
    """Lines that share their axes."""

    x: Axis
    y: Axis
    series: tuple[Series, ...]


class Curves:
    """All lines of a measured figure, by name."""

    def __init__(self, panels: Sequence[Panel]) -> None:
        self._series = {series.name: series for panel in panels for series in panel.series}

    def __getitem__(self, name: str) -> Series:
        return self._series[name]

    def all(self) -> tuple[Series, ...]:
        """Every line."""
        return tuple(self._series.values())


@dataclass(frozen=True)
class Outcome:
    """What became of a claim.

    Attributes:
        predicted: by the cost model, as text; empty where it says nothing.
        measured: as text.
        as_published: whether who beats whom, and how that changes, came out as published.
        reached: whether a published number was reached; None where none was published.
    """

    predicted: str
    measured: str
    as_published: bool
    reached: bool | None = None


@dataclass(frozen=True)
class Cause:
    """Why a published number is not reached, or an order differs.

    Attributes:
        text: the cause, as far as it is known.
        test: name of the test that shows it, in tests/experiments/test_published_ratios.py.
    """

    text: str
    test: str


@dataclass(frozen=True)
class Claim:
    """A statement about a figure: of the paper's text, or our own.

    Attributes:
        text: the statement, shortened.
        published: its number, or what it says in a word.
        judge: compares it with the measured lines.
        cause: why a published number is not reached or an order differs; None if that is not known.
        contradicted: whether even the order is not to be expected here, at small scale at least, for that cause.
        origin: whose statement it is.
    """

    text: str
    published: str
    judge: Callable[[Curves], Outcome]
    cause: Cause | None = None
    contradicted: bool = False
    origin: Origin = Origin.PAPER


@dataclass(frozen=True)
class Figure:
    """A figure to reproduce.

    Attributes:
        id: paper and number, such as 000-10c.
        title: what it shows.
        claims: what the paper's text says about it.
        measure: measures it.
        minutes_at_paper_scale: roughly, on the virtual disk and one core.
        memory_at_paper_scale: bytes that its largest point needs, roughly.
        assumption: what the paper leaves open and was chosen here.
    """

    id: str
    title: str
    claims: tuple[Claim, ...]
    measure: Callable[[FigureSetting], list[Panel]]
    minutes_at_paper_scale: float
    memory_at_paper_scale: int
    assumption: str = ""


@dataclass(frozen=True)
class Reproduction:
    """A figure as it came out.

    Attributes:
        figure: what was measured.
        disk: on which disk.
        scale: at which scale.
        part: sizes of R and memory, as a part of the paper's.
        panels: its lines.
        seconds: how long that took.
    """

    figure: Figure
    disk: str
    scale: str
    part: float
    panels: tuple[Panel, ...]
    seconds: float

    @property
    def outcomes(self) -> list[tuple[Claim, Outcome]]:
        """Each claim with what became of it."""
        curves = Curves(self.panels)
        return [(claim, claim.judge(curves)) for claim in self.figure.claims]
