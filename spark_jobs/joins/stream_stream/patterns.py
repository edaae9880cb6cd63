"""Patterns of punctuations: which keys a stream brings no more of (001 §2.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.jit import kernel, read_only

Int64Array = NDArray[np.int64]

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_BLOCK = 64


@dataclass(frozen=True, eq=False)
class Pattern:
    """Keys as disjoint ranges; each of the five kinds of pattern is a case of that.

    Wildcard: one range from the lowest to the highest integer. Constant: one range of one key. Range: one. Enumeration
    list: ranges of the keys, neighbours in one. Empty: none. The "and" of two patterns is a pattern.

    Attributes:
        firsts: int64, shape (n,), the first key of each range, ascending.
        lasts: int64, shape (n,), the last key of each, included; less than the next first by 2 at least.
    """

    firsts: Int64Array
    lasts: Int64Array

    def __post_init__(self) -> None:
        if len(self.firsts) != len(self.lasts):
            raise ValueError(
                f"{len(self.firsts)} first keys and {len(self.lasts)} last keys: each range has one of both"
            )
        if (self.firsts > self.lasts).any():
            wrong = int(np.argmax(self.firsts > self.lasts))
            raise ValueError(f"the range from {self.firsts[wrong]} to {self.lasts[wrong]} is empty: leave it out")
        # Written so that nothing overflows at the ends of int64.
        if len(self.firsts) > 1 and (self.firsts[1:] - 1 <= self.lasts[:-1]).any():
            raise ValueError("the ranges of a pattern ascend, and neither overlap nor touch: join those that do")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Pattern)
            and np.array_equal(self.firsts, other.firsts)
            and np.array_equal(self.lasts, other.lasts)
        )

    def __hash__(self) -> int:
        return hash((self.firsts.tobytes(), self.lasts.tobytes()))

    def __len__(self) -> int:
        """How many ranges it has."""
        return len(self.firsts)

    def matches(self, keys: Int64Array) -> NDArray[np.bool_]:
        """Which keys match. O(n log ranges)."""
        return ranges_of(self.firsts, self.lasts, keys) >= 0

    def __and__(self, other: Pattern) -> Pattern:
        """What both match. O(ranges of both, times log)."""
        # Each range of one meets a run of the other's.
        begin = np.searchsorted(other.lasts, self.firsts, side="left")
        until = np.searchsorted(other.firsts, self.lasts, side="right")
        met = until - begin
        mine = np.repeat(np.arange(len(self)), met)
        theirs = np.arange(int(met.sum())) - np.repeat(np.cumsum(met) - met, met) + np.repeat(begin, met)
        return Pattern(
            np.maximum(self.firsts[mine], other.firsts[theirs]), np.minimum(self.lasts[mine], other.lasts[theirs])
        )

    def __sub__(self, other: Pattern) -> Pattern:
        """What it matches and the other does not. O(ranges of this one, times log) where they have no key in common."""
        apart = np.searchsorted(other.lasts, self.firsts) == np.searchsorted(other.firsts, self.lasts, side="right")
        return self if apart.all() else self & ~other

    def __invert__(self) -> Pattern:
        """What it does not match. O(ranges)."""
        if not len(self):
            return WILDCARD
        firsts, lasts = self.lasts[:-1] + 1, self.firsts[1:] - 1
        if self.firsts[0] > _LOWEST:
            firsts, lasts = np.insert(firsts, 0, _LOWEST), np.insert(lasts, 0, self.firsts[0] - 1)
        if self.lasts[-1] < _HIGHEST:
            firsts, lasts = np.append(firsts, self.lasts[-1] + 1), np.append(lasts, _HIGHEST)
        return Pattern(firsts, lasts)

    def keys(self, most: int) -> Int64Array | None:
        """All keys that it matches, ascending, if there are not too many. O(keys).

        Args:
            most: how many, at most.

        Returns:
            int64, shape (n,), n <= most; None if there are more.
        """
        # One less than the keys of each range; as unsigned numbers, since a range may have more keys than int64 counts.
        more = self.lasts.view(np.uint64) - self.firsts.view(np.uint64)
        if len(more) > most or (more >= np.uint64(most)).any() or int(more.sum()) + len(more) > most:
            return None
        lengths = more.astype(np.int64) + 1
        within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.repeat(self.firsts, lengths) + within

    def __or__(self, other: Pattern) -> Pattern:
        """What one of them matches. O(ranges of both, times log)."""
        if not (len(self) and len(other)):
            return self if len(self) else other
        return union(np.concatenate((self.firsts, other.firsts)), np.concatenate((self.lasts, other.lasts)))


def ranges_of(firsts: Int64Array, lasts: Int64Array, keys: Int64Array) -> Int64Array:
    """In which of some ranges, ascending and apart, each key lies, -1 for none; int64, shape (n,). O(n log ranges)."""
    firsts, lasts = np.ascontiguousarray(firsts), np.ascontiguousarray(lasts)
    return _ranges_of(read_only(firsts), read_only(lasts), read_only(keys))


@kernel
def _ranges_of(firsts: Int64Array, lasts: Int64Array, keys: Int64Array) -> Int64Array:
    within = np.full(len(keys), -1)
    if len(firsts):
        positions = np.empty(_BLOCK, np.int64)
        for start in range(0, len(keys), _BLOCK):
            width = min(_BLOCK, len(keys) - start)
            positions[:] = 0
            # Binary searches side by side and without branches, which would be mispredicted every other time.
            left = len(firsts)
            while left > 1:
                half = left >> 1
                for i in range(width):
                    positions[i] += half * (firsts[positions[i] + half] <= keys[start + i])
                left -= half
            for i in range(width):
                key, position = keys[start + i], positions[i]
                if (firsts[position] <= key) & (key <= lasts[position]):
                    within[start + i] = position
    return within


def _ranges(firsts: list[int], lasts: list[int]) -> Pattern:
    return Pattern(np.array(firsts, np.int64), np.array(lasts, np.int64))


EMPTY = _ranges([], [])
WILDCARD = _ranges([_LOWEST], [_HIGHEST])


def constant(key: int) -> Pattern:
    """One key."""
    return _ranges([key], [key])


def key_range(first: int, last: int) -> Pattern:
    """All keys from one to another, both included."""
    return _ranges([first], [last])


def union(firsts: Int64Array, lasts: Int64Array) -> Pattern:
    """What one of some ranges matches; int64, shape (n,) each, in any order. O(n log n)."""
    if not len(firsts):
        return EMPTY
    order = np.argsort(firsts)
    firsts, reach = firsts[order], np.maximum.accumulate(lasts[order])
    begins = np.ones(len(firsts), bool)
    begins[1:] = (firsts[1:] > reach[:-1]) & (firsts[1:] - 1 > reach[:-1])
    return Pattern(firsts[begins], reach[np.append(begins[1:], True)])


def enumeration(keys: Int64Array) -> Pattern:
    """Some keys, int64, shape (n,), in any order. O(n log n)."""
    ordered = np.sort(keys)
    if not len(ordered):
        return EMPTY
    # Written so that nothing overflows at the ends of int64.
    steps = ordered[1:] - 1 > ordered[:-1]
    steps &= ordered[1:] != ordered[:-1]
    return Pattern(ordered[np.append(True, steps)], ordered[np.append(steps, True)])
