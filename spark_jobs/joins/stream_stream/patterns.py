"""Patterns of punctuations: which keys a stream brings no more of (001 §2.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]


@dataclass(frozen=True)
class Pattern:
    """Keys in a sorted list of disjoint ranges; every one of the five kinds is a case of that.

    Wildcard: one range from the lowest to the highest integer. Constant: one range of one key. Range: one. Enumeration
    list: ranges of one key each. Empty: none. The "and" of two patterns is a pattern.

    Attributes:
        ranges: (first, last) of each range, both inclusive, ascending, neither overlapping nor touching.
    """

    ranges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        for first, last in self.ranges:
            if not -(2**63) <= first <= last < 2**63:
                raise ValueError(f"a range of keys goes from a smaller one to a larger one, not {first} to {last}")
        for (_, before), (first, _) in zip(self.ranges, self.ranges[1:], strict=False):
            if first <= before + 1:
                raise ValueError(
                    f"ranges come in order and don't touch, but one ends at {before}, the next begins at {first}"
                )

    def matches(self, keys: Int64Array) -> NDArray[np.bool_]:
        """Which keys match. O(n log ranges)."""
        if not self.ranges:
            return np.zeros(len(keys), bool)
        firsts, lasts = np.array(self.ranges, np.int64).T
        position = np.searchsorted(firsts, keys, side="right") - 1
        return (position >= 0) & (keys <= lasts[np.maximum(position, 0)])

    def __and__(self, other: Pattern) -> Pattern:
        """What both match. O(ranges of both)."""
        mine, theirs = list(self.ranges), list(other.ranges)
        common = []
        while mine and theirs:
            first, last = max(mine[0][0], theirs[0][0]), min(mine[0][1], theirs[0][1])
            if first <= last:
                common.append((first, last))
            (mine if mine[0][1] < theirs[0][1] else theirs).pop(0)
        return Pattern(tuple(common))


EMPTY = Pattern(())
WILDCARD = Pattern(((-(2**63), 2**63 - 1),))


def constant(key: int) -> Pattern:
    """One key."""
    return Pattern(((key, key),))


def key_range(first: int, last: int) -> Pattern:
    """All keys from one to another, both included."""
    return Pattern(((first, last),))


def enumeration(keys: Int64Array) -> Pattern:
    """Some keys, int64, shape (n,), in any order. O(n log n)."""
    ranges: list[tuple[int, int]] = []
    for key in np.unique(keys).tolist():
        if ranges and ranges[-1][1] + 1 == key:
            ranges[-1] = (ranges[-1][0], key)
        else:
            ranges.append((key, key))
    return Pattern(tuple(ranges))
