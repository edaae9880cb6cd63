"""Windows over time: when a tuple that starts at some time ends (004 §5.1). Where starts never fall, ends don't."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]

_LAST = 2**63 - 1


class Window(Protocol):
    """Makes ends from starts."""

    def ends(self, starts: Int64Array) -> Int64Array:
        """The end of each tuple, above its start; int64, shape (n,). What lies beyond int64 is its last number."""


@dataclass(frozen=True)
class SlidingWindow:
    """Each tuple is valid for one length of time: [start, start + r).

    Attributes:
        length: r, in the unit of the starts, at least 1.
    """

    length: int

    def __post_init__(self) -> None:
        _expect_length(self.length)

    def ends(self, starts: Int64Array) -> Int64Array:
        """start + r."""
        return _later(starts, np.full(len(starts), self.length))


@dataclass(frozen=True)
class FixedWindow:
    """Time is cut into pieces of one length, and a tuple is valid to the end of its piece: [start, m n).

    Attributes:
        length: m, in the unit of the starts, at least 1; pieces are cut at its multiples.
    """

    length: int

    def __post_init__(self) -> None:
        _expect_length(self.length)

    def ends(self, starts: Int64Array) -> Int64Array:
        """The least multiple of m above the start."""
        return _later(starts, self.length - starts % self.length)


def _expect_length(length: int) -> None:
    if not 1 <= length <= _LAST:
        raise ValueError(f"a window has a length from 1 to 2**63 - 1, not {length}")


def _later(starts: Int64Array, by: Int64Array) -> Int64Array:
    later: Int64Array = np.minimum(starts, _LAST - by) + by
    return later
