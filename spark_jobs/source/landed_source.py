"""What the driver asks of a source while it runs: what is new, what is read next, in which pieces, what can go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime
from typing import Protocol

from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.ledger.unread import Unread
from spark_jobs.source.slices import SourceSlice

TakenRow = tuple[str, int, int | None, int | None]
"""How far a unit was taken: its name, the position after that, and its size and time of change then."""


class PlannedSlice(Hashable, Protocol):
    """A slice as a batch plans it, be it of one of several streams."""

    @property
    def range_no(self) -> int:
        """Number of the range within its batch."""

    @property
    def is_loaded_in_part(self) -> bool:
        """As of `SourceSlice`."""


class LandedSource(ABC):
    """A source, or several, as the driver plans what is read of it. The ledger remembers what was planned.

    Attributes:
        unread: what was seen and left when ranges were taken last; None before that. Any thread may ask.
    """

    unread: Unread | None

    @abstractmethod
    def resume(self, taken: Callable[[list[str]], Iterable[TakenRow]]) -> None:
        """Begin anew with what the ledger knows; before the first look.

        Args:
            taken: tells of units what of them was taken, maybe several times: of what a unit held at different times.
        """

    @abstractmethod
    def look(self) -> None:
        """See what is new since the last look.

        Raises:
            SourceAwayError: the source can't be looked at; the message says what to do.
        """

    @abstractmethod
    def take(self, most_bytes: int) -> list[SourceRange]:
        """The next ranges, which count as taken from now on: about `most_bytes`, but one at least if there is any."""

    @abstractmethod
    def pieces(self, ranges: Sequence[tuple[int, SourceRange]], parts: int) -> Sequence[Sequence[PlannedSlice]]:
        """The slices of ranges, dealt out to at most `parts` tasks of about the same size.

        Args:
            ranges: with their numbers in the batch.
            parts: tasks.

        Raises:
            SourceAwayError: some of them are of another source; the message says what to do.
        """

    def forget(self, units: Iterable[str]) -> None:  # noqa: B027 (logs have nothing to forget)
        """Let these units be taken again, whole; nothing where what is at a place is read once."""

    def changed(self) -> list[SourceRange]:
        """Units that were changed after they had been taken, as they are now; each is told once."""
        return []


class SingleSource(LandedSource):
    """The source of one stream."""

    @property
    @abstractmethod
    def has_waiting(self) -> bool:
        """Whether something of it has been seen and not been taken, or may have been."""

    @abstractmethod
    def pieces(self, ranges: Sequence[tuple[int, SourceRange]], parts: int) -> Sequence[Sequence[SourceSlice]]:
        """As of `LandedSource`."""


class RemovesLoaded(Protocol):
    """Removes from a source what is loaded.

    Attributes:
        prefix: how the ledger's names of its units begin, where it has units of other streams, too.
    """

    prefix: str

    @property
    def loaded_before(self) -> datetime:
        """What was loaded before this time is to go now."""

    def remove(self, loaded: Iterable[tuple[str, int, int]]) -> list[str]:
        """Remove units, but for those that were changed since.

        Args:
            loaded: (unit, size, time of change in ns), as they were when they were loaded.

        Returns:
            the units that are there no longer.
        """
