"""What a source holds now, unit by unit, and what the ledger says of each: the proof compares both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from spark_jobs.ledger.poison import Poison
from spark_jobs.ledger.stated_ranges import LedgerRange
from spark_jobs.source.slices import SourceSlice

Fault = Literal["gone", "changed"]
"""Why what was loaded is not there any more: it went, or something else has its name."""


class LandedUnit(ABC):
    """A unit that can be read.

    Attributes:
        unit: its name in the ledger.
        size: position after its last record.
        ranges: those of it, by where they begin.
        where: what it is, in words.
        drops_records: whether the source itself removes some of its records.
    """

    unit: str
    size: int
    ranges: Sequence[LedgerRange]
    where: ClassVar[str]
    drops_records: ClassVar[bool] = False

    @property
    @abstractmethod
    def whole(self) -> SourceSlice:
        """All of it, as tasks read it."""

    @property
    @abstractmethod
    def arrived(self) -> datetime:
        """When its records arrived; of those that came one by one, the first."""

    @abstractmethod
    def fault(self, error: Exception) -> tuple[Fault, str] | None:
        """Why it is not there as it was, by the error that reading it gave, and what is told; None: it is damaged."""

    @property
    def begin(self) -> int:
        """Position of the first record that is to be read."""
        return 0

    @property
    def rejected_path(self) -> Path | None:
        """Of a file that a former version may have rejected whole, its path; None: there is none such."""
        return None

    @property
    def poison(self) -> Poison:
        """What of it is not decoded."""
        return tuple(span for each in self.ranges for span in each.poison)

    @property
    def is_planned(self) -> bool:
        """Whether the ledger has all of it, loaded or not."""
        return self.reached >= self.size

    @property
    def reached(self) -> int:
        """Up to where the ledger has it without a gap."""
        reached = self.begin
        for each in self.ranges:
            reached = max(reached, each.last) if each.first <= reached else reached
        return reached


class AbsentUnit(NamedTuple):
    """A unit that the ledger has ranges of, and that is there no more as it was then.

    Attributes:
        unit: its name in the ledger.
        ranges: those of it.
        is_changed: whether another one has its name now, of which the ledger has nothing.
    """

    unit: str
    ranges: Sequence[LedgerRange]
    is_changed: bool


class Landing(ABC):
    """What a source holds.

    Attributes:
        told: what is done with it, for the progress that is shown.
    """

    told: str

    @property
    def total(self) -> int | None:
        """How many units there are; None: nobody knows yet."""
        return None

    @abstractmethod
    def units(self) -> Iterator[LandedUnit | AbsentUnit]:
        """All units that are there, or that the ledger knows, with their ranges.

        Raises:
            SourceAwayError: the source can't be read now.
        """

    @abstractmethod
    def room(self, planned: LedgerRange) -> int | None:
        """How many records a range has room for; None where nothing bounds them."""

    @abstractmethod
    def passed_over(self, unit: LandedUnit) -> bool:
        """Whether a unit that is not loaded to its end was overtaken: what comes after it is loaded."""
