"""What a task reads: a slice of a planned range. Each kind of source has slices of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from spark_jobs.ledger.poison import Poison

FAR = 1 << 62
"""A position behind all records."""


class SourceSlice(ABC):
    """Some consecutive records of one unit. Frozen and hashable: tasks tell by it what they have read.

    A kind's slices also hold what says that the unit is still the one that was planned: a file's size and time of
    change, or the record that was read before. Nothing but the kind's reader looks at it.

    Attributes:
        range_no: number of the range within its batch; a range may be read in several slices.
        first: position of its first record.
        last: position after its last record.
        poison: what of it is not decoded.
    """

    range_no: int
    first: int
    last: int
    poison: Poison

    @property
    @abstractmethod
    def is_loaded_in_part(self) -> bool:
        """Whether records are loaded although others of it can't be read: these are lost, and not set aside."""

    def bounds(self) -> tuple[int, int]:
        """The positions between which it has all its records."""
        return self.first, self.last

    @abstractmethod
    def window(self, first: int, last: int) -> Self:
        """The part of it whose records lie at these positions; there may be none."""

    @property
    @abstractmethod
    def has_one_record(self) -> bool:
        """Whether it has no more; it may say no of one that has."""
