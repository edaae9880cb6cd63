"""Which ranges of a file its records lie in: one that was read more than once lies in several."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.proof.landing import LandedFile, LedgerRange

Int64Array = NDArray[np.int64]

LOADED, PENDING, LEFT_OUT, _IN_NONE = range(4)
"""What records count as, for their range. Those of several ranges count as the least of what these say."""

_FAR = np.iinfo(np.int64).max


def counts_as(planned: LedgerRange) -> int:
    """What the records of a range count as, for itself."""
    if planned.state in {"planned", "to retry"}:
        return PENDING
    return LOADED if planned.was_loaded else LEFT_OUT


class Coverage:
    """A file, cut where its ranges begin and end: what the records of each part count as, and how many they are.

    O(ranges log ranges), and O(ranges) more for each time that the file was read again.

    Args:
        file: with its ranges.
    """

    def __init__(self, file: LandedFile) -> None:
        self._ranges = file.ranges
        # Positions in a packed file go beyond its size.
        spans = [(each.first, _FAR if each.last >= file.size else each.last) for each in file.ranges]
        ends = np.array(spans, np.int64).reshape(-1, 2)
        self._edges = np.unique(ends)
        self._parts = (np.searchsorted(self._edges, ends) + 1).tolist()  # of each range: the first, and that after it
        self._counts_as = np.full(len(self._edges) + 1, _IN_NONE)
        self._found = np.zeros(len(self._edges) + 1, np.int64)
        for each, (first, last) in zip(file.ranges, self._parts, strict=True):
            parts = self._counts_as[first:last]
            np.minimum(parts, counts_as(each), out=parts)
        self._in_none = self._counts_as == _IN_NONE
        self._counts_as[self._in_none] = PENDING

    def add(self, positions: Int64Array) -> Int64Array:
        """Count records at these positions, and say what they count as; both int64, shape (n,). O(n log ranges)."""
        parts = np.searchsorted(self._edges, positions, "right")
        self._found += np.bincount(parts, minlength=len(self._found))
        return self._counts_as[parts]

    @property
    def records(self) -> int:
        """How many were counted; each once."""
        return int(self._found.sum())

    @property
    def in_none(self) -> int:
        """How many of them lie in no range."""
        return int(self._found[self._in_none].sum())

    def found(self) -> list[int]:
        """How many of them lie in each range."""
        return [int(self._found[first:last].sum()) for first, last in self._parts]

    def left_out(self) -> list[LedgerRange]:
        """The ranges of which records are left out: no other range has them."""
        return [
            each
            for each, (first, last) in zip(self._ranges, self._parts, strict=True)
            if (self._counts_as[first:last] == LEFT_OUT).any()
        ]
