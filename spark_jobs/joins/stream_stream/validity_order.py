"""The order of validity that each stream keeps (004 §5.1), and how far each has come in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.stream_stream.base import Tuples

Int64Array = NDArray[np.int64]

FIRST, LAST = -(2**63), 2**63 - 1


class ValidityOrder:
    """Tells tuples that keep the order of (start, end) within their stream from those that come too late.

    Args:
        streams: how many there are.

    Attributes:
        starts: int64, shape (streams,): the least start that each stream can still bring.
    """

    def __init__(self, streams: int) -> None:
        self.starts: Int64Array = np.full(streams, FIRST)
        self._ends: Int64Array = np.full(streams, FIRST)

    @property
    def common(self) -> int:
        """What starts before that has come, on all streams."""
        return int(self.starts.min())

    def reach(self, stream: int, start: int) -> None:
        """A stream brings nothing any more that starts before. O(1)."""
        if start > self.starts[stream]:
            self.starts[stream], self._ends[stream] = start, FIRST

    def in_time(self, stream: int, tuples: Tuples) -> NDArray[np.bool_] | None:
        """Which tuples of a stream start no earlier than it has told, in any order; None if all do. O(n)."""
        assert tuples.starts is not None
        kept: NDArray[np.bool_] = tuples.starts >= self.starts[stream]
        return None if kept.all() else kept

    def take(self, stream: int, tuples: Tuples) -> NDArray[np.bool_] | None:
        """Which of the next tuples of a stream, at least one, keep the order; None if all do. O(n), else O(n log n)."""
        starts, ends = tuples.starts, tuples.ends
        assert starts is not None
        assert ends is not None
        reached, reached_end = self.starts[stream], self._ends[stream]
        late = _before(starts[:1], ends[:1], reached, reached_end)
        if not late[0] and not _before(starts[1:], ends[1:], starts[:-1], ends[:-1]).any():
            self.starts[stream], self._ends[stream] = starts[-1], ends[-1]
            return None
        order = np.lexsort((ends, starts))
        differs = _before(starts[order[:-1]], ends[order[:-1]], starts[order[1:]], ends[order[1:]])
        ranks = np.empty(len(starts), np.int64)
        ranks[order] = np.concatenate(([0], np.cumsum(differs)))
        ranks[_before(starts, ends, reached, reached_end)] = -1
        kept = (ranks >= 0) & (ranks == np.maximum.accumulate(ranks))
        if kept.any():
            last = np.flatnonzero(kept)[-1]
            self.starts[stream], self._ends[stream] = starts[last], ends[last]
        return kept


def _before(starts: Any, ends: Any, other_starts: Any, other_ends: Any) -> Any:
    """Which intervals come before others in the lexicographic order."""
    return (starts < other_starts) | ((starts == other_starts) & (ends < other_ends))
