"""When two tuples of different streams match, and when one can match nothing that is still to come in order of keys.

A sort-based join takes the tuples of all streams in one global order of their keys (004 §3.1). A predicate names
two conditions for it: P_join, whether two tuples match, and P_rm, whether a tuple kept from before may be
forgotten when another is reached. They have to satisfy 004 (1) and (2): what P_rm(v, u) lets go of, no tuple w >= v
in the order matches. With more than two streams, every two tuples of a result match: for intervals on a line that
means that all have a point in common.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Values(NamedTuple):
    """Join attributes of n tuples; int64, shape (n,) each, or numbers that stand for all.

    Attributes:
        keys: the value, or the low end of the interval [low, high).
        highs: the interval's high end; None where the attribute is one value.
    """

    keys: Int64Array | np.int64
    highs: Int64Array | np.int64 | None = None


class Predicate(Protocol):
    """The two conditions, for arrays at once. The order is by key, then by high end."""

    @property
    def interval(self) -> bool:
        """Whether the join attribute is an interval, so that tuples have highs."""

    def joins(self, left: Values, right: Values) -> Flags:
        """P_join: which pairs match. Symmetric. Shapes broadcast. O(n)."""

    def removes(self, reached: Values, kept: Values) -> Flags:
        """P_rm: which of the kept tuples match nothing from `reached` on in the order. O(n)."""


@dataclass(frozen=True)
class Equality:
    """Equal keys: the equi-join, the only predicate that hashing serves."""

    interval = False

    def joins(self, left: Values, right: Values) -> Flags:
        """Which pairs have one key."""
        return np.equal(left.keys, right.keys)

    def removes(self, reached: Values, kept: Values) -> Flags:
        """Which kept tuples have a smaller key."""
        return np.less(kept.keys, reached.keys)


def expect_equality(algorithm: str, predicate: Predicate) -> None:
    """Refuse what hashing does not serve.

    Args:
        algorithm: that hashes, for the error.
        predicate: by which it is to join.

    Raises:
        ValueError: it is not equality.
    """
    if not isinstance(predicate, Equality):
        raise ValueError(f"{algorithm} finds tuples by equal keys, not by {predicate}: take temporal_join")


@dataclass(frozen=True)
class Overlap:
    """Intervals [low, high) with a point in common (004 §3.1, interval join)."""

    interval = True

    def joins(self, left: Values, right: Values) -> Flags:
        """Which pairs overlap."""
        assert left.highs is not None
        assert right.highs is not None
        return np.less(left.keys, right.highs) & np.less(right.keys, left.highs)

    def removes(self, reached: Values, kept: Values) -> Flags:
        """Which kept intervals end at or before the low end that is reached."""
        assert kept.highs is not None
        return np.less_equal(kept.highs, reached.keys)


@dataclass(frozen=True)
class Band:
    """Values at most `width` apart: |x - y| <= width.

    Attributes:
        width: at least 0.
    """

    width: int
    interval = False

    def __post_init__(self) -> None:
        if not 0 <= self.width < 2**62:
            raise ValueError(f"a band has a width from 0 to 2**62 - 1, not {self.width}")

    def joins(self, left: Values, right: Values) -> Flags:
        """Which pairs lie in the band."""
        low, high = np.minimum(left.keys, right.keys), np.maximum(left.keys, right.keys)
        return _distance(low, high) <= np.uint64(self.width)

    def removes(self, reached: Values, kept: Values) -> Flags:
        """Which kept values lie below the one reached by more than the width."""
        return np.less(kept.keys, reached.keys) & (_distance(kept.keys, reached.keys) > np.uint64(self.width))


def _distance(low: Int64Array | np.int64, high: Int64Array | np.int64) -> NDArray[np.uint64]:
    """high - low, which may exceed int64; meaningless where high < low."""
    return np.subtract(np.asarray(high).view(np.uint64), np.asarray(low).view(np.uint64))
