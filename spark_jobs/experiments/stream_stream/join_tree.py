"""A join of several streams as one operator, or as a left-deep tree of binary ones (004 §7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from spark_jobs.joins.stream_stream.base import Int64Array, Results, Tuples
from spark_jobs.joins.stream_stream.temporal_progressive_merge_join import TemporalProgressiveMergeJoin

Operator = Callable[[int, int], TemporalProgressiveMergeJoin]
"""Makes an operator for so many streams, of so many that share the memory."""


class JoinTree(Protocol):
    """Takes tuples of all streams; gives the starts of the results."""

    @property
    def joins(self) -> Sequence[TemporalProgressiveMergeJoin]:
        """The operators, in the order in which results go through them."""

    def arrive(self, stream: int, tuples: Tuples) -> Int64Array:
        """Starts of the results that come of it, int64, shape (m,)."""

    def advance(self) -> Int64Array:
        """A step of each operator."""

    def finish(self) -> Iterator[Int64Array]:
        """All that is left."""


class OneJoin:
    """All streams in one operator.

    Args:
        streams: how many.
        operator: makes it.
    """

    def __init__(self, streams: int, operator: Operator) -> None:
        self.joins: Sequence[TemporalProgressiveMergeJoin] = [operator(streams, 1)]

    def arrive(self, stream: int, tuples: Tuples) -> Int64Array:
        """Starts of the results that come of it."""
        return _starts(self.joins[0].arrive(stream, tuples))

    def advance(self) -> Int64Array:
        """A step."""
        return _starts(self.joins[0].advance())

    def finish(self) -> Iterator[Int64Array]:
        """All that is left."""
        for results in self.joins[0].finish():
            yield _starts(results)


class LeftDeepTree:
    """Binary operators: the results of one are the left stream of the next, as intervals that their tuples share.

    Args:
        streams: how many; one more than operators.
        operator: makes each.
    """

    def __init__(self, streams: int, operator: Operator) -> None:
        self.joins: Sequence[TemporalProgressiveMergeJoin] = [operator(2, streams - 1) for _ in range(streams - 1)]
        # Of each operator's two streams: low and high end of each tuple, by id.
        self._intervals = [[_Intervals(), _Intervals()] for _ in self.joins]

    def arrive(self, stream: int, tuples: Tuples) -> Int64Array:
        """Starts of the last operator's results."""
        level, side = max(0, stream - 1), int(stream > 0)
        return self._take(level, side, tuples)

    def advance(self) -> Int64Array:
        """A step of each, from the last on: what comes of one waits for the next step."""
        starts = [self._hand_on(level, self.joins[level].advance()) for level in reversed(range(len(self.joins)))]
        return np.concatenate(starts)

    def finish(self) -> Iterator[Int64Array]:
        """All that is left, from the first operator on."""
        for level, join in enumerate(self.joins):
            for results in join.finish():
                yield self._hand_on(level, results)

    def _take(self, level: int, side: int, tuples: Tuples) -> Int64Array:
        assert tuples.highs is not None
        if level + 1 < len(self.joins):
            self._intervals[level][side].append(tuples.keys, tuples.highs)
        return self._hand_on(level, self.joins[level].arrive(side, tuples))

    def _hand_on(self, level: int, results: Results) -> Int64Array:
        """Give an operator's results to the next one; the starts of those that the last one made of it."""
        if level + 1 == len(self.joins) or not results.count:
            return _starts(results) if level + 1 == len(self.joins) else np.empty(0, np.int64)
        parts = [intervals.of(ids) for intervals, ids in zip(self._intervals[level], results.ids, strict=True)]
        lows, highs = np.maximum(parts[0][0], parts[1][0]), np.minimum(parts[0][1], parts[1][1])
        count = self._intervals[level + 1][0].count
        ids = np.arange(count, count + results.count)
        return self._take(level + 1, 0, Tuples(ids, lows, highs, results.starts, results.ends))


class _Intervals:
    """Low and high ends by id, where ids come in order."""

    def __init__(self) -> None:
        self.count = 0
        self._ends = np.empty((2, 64), np.int64)

    def append(self, lows: Int64Array, highs: Int64Array) -> None:
        while self.count + len(lows) > self._ends.shape[1]:
            self._ends = np.concatenate((self._ends, np.empty_like(self._ends)), axis=1)
        self._ends[:, self.count : self.count + len(lows)] = lows, highs
        self.count += len(lows)

    def of(self, ids: Int64Array) -> Int64Array:
        return self._ends[:, ids]


def _starts(results: Results) -> Int64Array:
    assert results.starts is not None
    return results.starts
