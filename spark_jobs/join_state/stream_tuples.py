"""The tuples of one stream in a bucket's state: which there are, by id and by event id, and which were in a result.

    segments   [ oldest, large, in a file ] [ ... ] [ small ] [ in memory: came since the last checkpoint ]

Each tuple is written once, and again when small segments are merged to a larger one, or when most of its segment has
left: a constant number of times, for segments grow eightfold each time, to a largest size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.join_state.segment import Segment, merged

Int64Array = NDArray[np.int64]
Flags = NDArray[np.bool_]

# So many segments of one size are merged.
_MERGED_AT_ONCE = 8
# Tuples of the smallest size; and of the largest segments that are merged.
_SMALL, _LARGE = 1024, 1 << 18
_PIECE = 1 << 15


class StreamTuples:
    """Tuples of one stream, within what the caller reads of them.

    Args:
        event_id: the columns that tell events apart.
        exact: tells whether codes of the event id tell them apart.
        segments: what there is, oldest first.
        next_id: of the next tuple.

    Attributes:
        waiting: tuples that were in no result yet.
    """

    def __init__(self, event_id: tuple[str, ...], segments: Sequence[Segment] = (), next_id: int = 0) -> None:
        self._event_id = event_id
        self.segments = list(segments)
        self.next_id = next_id
        self.waiting = sum(int((~segment.joined[segment.living_rows()]).sum()) for segment in segments)

    def __len__(self) -> int:
        return sum(segment.living for segment in self.segments)

    def add(self, segment: Segment) -> None:
        """Take tuples that have come."""
        self.segments.append(segment)
        self.next_id = int(segment.ids[-1]) + 1
        self.waiting += len(segment)

    def known(self, tuples: pa.Table, events: Int64Array, bound: int, *, exact: bool) -> Flags:
        """Which tuples have the event id of one that is here; bool, shape (n,). O(n log segment) a segment.

        Args:
            tuples: shape (n,).
            events: codes of their event ids.
            bound: what ends there or before has left.
            exact: whether the codes tell all event ids apart.
        """
        known = np.zeros(len(events), np.bool_)
        for segment in self.segments:
            asked, rows = segment.same_events(events)
            there = segment.ends[rows] > bound
            asked, rows = asked[there], rows[there]
            if len(asked) and not exact:
                same = _equal(tuples.take(asked), segment.tuples.take(rows), self._event_id)
                asked = asked[same]
            known[asked] = True
        return known

    def fetch(self, ids: Int64Array) -> pa.Table:
        """Tuples by their ids, in that order; all of them are here. O(n log segments)."""
        parts, rows = [], []
        place = np.empty(len(ids), np.int64)
        of = np.searchsorted([int(segment.ids[0]) for segment in self.segments], ids, side="right") - 1
        first = 0
        for number in np.unique(of).tolist():
            where = np.flatnonzero(of == number)
            segment = self.segments[number]
            rows = segment.rows_of(ids[where])
            if len(where) == len(ids):
                return segment.tuples.take(rows)
            parts.append(segment.tuples.take(rows))
            place[where] = np.arange(first, first + len(where))
            first += len(where)
        return pa.concat_tables(parts, promote_options="default").combine_chunks().take(place)

    def join(self, ids: Int64Array) -> int:
        """Note that tuples are in a result; how many of them are for the first time. O(n log n)."""
        new = 0
        ids = np.unique(ids)
        cuts = np.searchsorted(ids, [int(segment.ids[0]) for segment in self.segments] + [self.next_id])
        for segment, first, until in zip(self.segments, cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            if first == until:
                continue
            rows = segment.rows_of(ids[first:until])
            new += int((~segment.joined[rows]).sum())
            segment.joined[rows] = True
        self.waiting -= new
        return new

    def leave(self, bound: int) -> Iterator[pa.Table]:
        """Let all tuples go that end at `bound` or before; those that never were in a result, in pieces.

        O(segments + tuples that go).
        """
        for segment in self.segments:
            rows = segment.leave(bound)
            self.waiting -= len(rows)
            for first in range(0, len(rows), _PIECE):
                yield segment.tuples.take(rows[first : first + _PIECE])
        self.segments = [segment for segment in self.segments if segment.living]

    def not_joined(self) -> Iterator[pa.Table]:
        """The tuples that were in no result yet, in pieces."""
        for segment in self.segments:
            rows = segment.living_rows()
            rows = rows[~segment.joined[rows]]
            for first in range(0, len(rows), _PIECE):
                yield segment.tuples.take(rows[first : first + _PIECE])

    def write(self, folder: Path, number: Callable[[], int]) -> None:
        """Bring all tuples to files, and merge what has become small. Amortised O(1) a tuple, O(log n) to sort it.

        Args:
            folder: where segments lie.
            number: gives each file its number.
        """
        written: list[Segment] = []
        for together in _together(self.segments):
            if len(together) == 1 and together[0].number and 2 * together[0].living >= len(together[0]):
                written.append(together[0])
                continue
            whole = together[0] if len(together) == 1 and not together[0].gone else merged(together)
            if whole is not None:
                written.append(whole.write(folder, number()))
        self.segments = written


def _together(segments: Sequence[Segment]) -> list[list[Segment]]:
    """Which segments next to each other are to be one."""
    groups: list[list[Segment]] = [[segment] for segment in segments]
    size = _SMALL
    while size <= _LARGE:
        # From the newest back: those that are not larger than the size.
        small = 0
        while small < len(groups) and sum(segment.living for segment in groups[-1 - small]) <= size:
            small += 1
        if small >= _MERGED_AT_ONCE:
            groups[-small:] = [[segment for group in groups[-small:] for segment in group]]
        size *= _MERGED_AT_ONCE
    return groups


def _equal(left: pa.Table, right: pa.Table, columns: Sequence[str]) -> Flags:
    """Where tuples of two tables agree in columns; bool, shape (n,)."""
    same = np.ones(left.num_rows, np.bool_)
    for name in columns:
        same &= pc.equal(left[name], right[name]).to_numpy(zero_copy_only=False)
    return same
