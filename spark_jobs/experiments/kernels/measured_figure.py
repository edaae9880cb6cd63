"""One line of the benchmark, what was reached and what was aimed at; and cases that are measured in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal, TypeVar

Name = TypeVar("Name")
Observed = TypeVar("Observed")


@dataclass(frozen=True)
class MeasuredFigure:
    """A measured figure.

    Attributes:
        name: what was measured, and on what.
        reached: median over the repetitions.
        low: smallest of them.
        high: largest of them.
        unit: of all values.
        target: what is aimed at; None for a figure that explains others.
        target_is: whether the target is the most or the least that is allowed.
    """

    name: str
    reached: float
    low: float
    high: float
    unit: str
    target: float | None = None
    target_is: Literal["most", "least"] = "most"

    @classmethod
    def of(
        cls,
        name: str,
        values: Sequence[float],
        unit: str,
        target: float | None = None,
        target_is: Literal["most", "least"] = "most",
    ) -> MeasuredFigure:
        """The figure of at least one repetition."""
        return cls(name, median(values), min(values), max(values), unit, target, target_is)

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None where there is none."""
        if self.target is None:
            return None
        return self.reached <= self.target if self.target_is == "most" else self.reached >= self.target

    def to_json(self) -> dict[str, Any]:
        """The figure for `--json`."""
        return asdict(self) | {"met": self.met}


def interleaved(cases: Mapping[Name, Callable[[], Observed]], repeats: int) -> dict[Name, list[Observed]]:
    """What each case gave in each of `repeats` rounds; a first round, which warms caches up, is thrown away."""
    for case in cases.values():
        case()
    observed: dict[Name, list[Observed]] = {name: [] for name in cases}
    for _ in range(repeats):
        for name, case in cases.items():
            observed[name].append(case())
    return observed


def timed(work: Callable[[], Observed]) -> tuple[float, Observed]:
    """How many seconds of processor time a piece of work takes, and what comes of it.

    The turns of other processes don't count; what they do to the processor's caches still does.
    """
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def seconds(work: Callable[[], object]) -> float:
    """How many seconds of processor time a piece of work takes."""
    return timed(work)[0]
