"""One line of the benchmark: what was reached, and what was aimed at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal


@dataclass(frozen=True)
class Figure:
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
    ) -> Figure:
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
