"""The tuples of one stream in a bucket's state: which there are, by id and by event id, and which were in a result.

    segments   [ oldest, large, in a file ] [ ... ] [ small ] [ in memory: came since the last checkpoint ]

Each tuple is written once, and again when small segments are merged to a larger one, or when most of its segment has
left: a constant number of times, for segments grow eightfold each time, and large ones are not merged. What is left of
tuples that are gone is narrow, and may be kept for ever: segments of that grow further, so that there are few to look
into.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.join_state.segment import Segment, merged
from spark_jobs.joins.structures.flags import set_flags

Int64Array = NDArray[np.int64]
Flags = NDArray[np.bool_]

# So many segments of one size are merged.
_MERGED_AT_ONCE = 8
# Tuples of the smallest size; and of the largest segments that are merged: to write those of a large batch again would
# cost more than to look into some segments more.
_SMALL, _LARGE, _LARGE_OF_TRACES = 1 << 10, 1 << 13, 1 << 19
_PIECE = 1 << 15


class StreamTuples:
    """Tuples of one stream.

    Args:
        event_id: the columns that tell events apart.
        segments: what there is, oldest first.
        next_id: of the next tuple.
        are_traces: whether they are what is left of tuples, a few columns only.

    Attributes:
        waiting: tuples that were in no result yet.
    """

    def __init__(
        self,
        event_id: tuple[str, ...],
        segments: Sequence[Segment] = (),
        next_id: int = 0,
        *,
        are_traces: bool = False,
    ) -> None:
        self._event_id = event_id
        self._are_traces = are_traces
        self.segments = list(segments)
        self.next_id = next_id
        self.waiting = sum(int((~segment.joined[segment.living_rows()]).sum()) for segment in segments)

    def __len__(self) -> int:
        return sum(segment.living for segment in self.segments)

    def add(self, segment: Segment) -> None:
        """Take tuples that have come."""
        self.segments.append(segment)
        self.next_id = int(segment.ids[-1]) + 1
        self.waiting += int(np.count_nonzero(~segment.joined))

    def known(self, tuples: pa.Table, events: Int64Array, order: Int64Array, bound: int, *, exact: bool) -> Flags:
        """Which tuples have the event id of one that is here; bool, shape (n,). O(n log(1 + segment / n)) a segment.

        Args:
            tuples: shape (n,).
            events: codes of their event ids.
            order: int64, shape (n,): the rows in the order of the codes.
            bound: what ends there or before is forgotten.
            exact: whether the codes tell all event ids apart.
        """
        known = np.zeros(len(events), np.bool_)
        ordered = events[order]
        for segment in self.segments:
            asked, rows = segment.same_events(ordered)
            there = segment.ends[rows] > bound
            asked, rows = order[asked[there]], rows[there]
            if len(asked) and not exact:
                same = equal(tuples.take(asked), segment.tuples.take(rows), self._event_id, self._event_id)
                asked = asked[same]
            known[asked] = True
        return known

    def fetch(self, ids: Int64Array) -> pa.Table:
        """Tuples by their ids, in that order; at least one, and all of them are here. O(n log segments)."""
        spread = self._by_segment(ids)
        parts = [segment.tuples.take(segment.rows_of(ids[where])) for segment, where in spread]
        if len(parts) == 1:
            return parts[0]
        place = np.empty(len(ids), np.int64)
        place[np.concatenate([where for _, where in spread])] = np.arange(len(ids))
        return pa.concat_tables(parts, promote_options="default").combine_chunks().take(place)

    def join(self, ids: Int64Array) -> int:
        """Note that tuples are in a result; how many of them are for the first time. O(n log segments)."""
        new = sum(set_flags(segment.joined, segment.rows_of(ids[where])) for segment, where in self._by_segment(ids))
        self.waiting -= new
        return new

    def leave(self, bound: int, forgotten: int) -> Iterator[pa.Table]:
        """Let all tuples go that end at `bound` or before; those that never were in a result, in pieces.

        O(segments + tuples that go); arguments as of `Segment.leave`.
        """
        for segment in self.segments:
            rows = segment.leave(bound, forgotten)
            self.waiting -= len(rows)
            for first in range(0, len(rows), _PIECE):
                yield segment.tuples.take(rows[first : first + _PIECE])
        self.segments = [segment for segment in self.segments if segment.living]

    def purge(self, segment: Segment, rows: Int64Array) -> None:
        """Let some tuples of a segment go before their time. O(rows)."""
        self.waiting -= int(np.count_nonzero(~segment.joined[rows]))
        segment.purge(rows)

    def not_joined(self) -> Iterator[pa.Table]:
        """The tuples that were in no result yet, in pieces."""
        for segment in self.segments:
            rows = segment.living_rows()
            rows = rows[~segment.joined[rows]]
            for first in range(0, len(rows), _PIECE):
                yield segment.tuples.take(rows[first : first + _PIECE])

    def _by_segment(self, ids: Int64Array) -> list[tuple[Segment, Int64Array]]:
        """The segments in which tuples lie, and for each the positions of those in `ids`. O(n log segments)."""
        firsts = [int(segment.ids[0]) for segment in self.segments]
        # Of 16 bits, because numpy sorts such keys by counting.
        of = (np.searchsorted(firsts, ids, side="right") - 1).astype(np.uint16)
        order = np.argsort(of, kind="stable")
        cuts = np.searchsorted(of[order], np.arange(len(firsts) + 1))
        return [
            (segment, order[first:until])
            for segment, first, until in zip(self.segments, cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
            if first < until
        ]

    def compact(self) -> None:
        """Merge what has become small, and drop what has left where that is most. Amortised O(1) a tuple to write it.

        What has no file then (its number is 0) has to be written.
        """
        compacted: list[Segment] = []
        for together in _together(self.segments, _LARGE_OF_TRACES if self._are_traces else _LARGE):
            first = together[0]
            if len(together) == 1 and (2 * first.living >= len(first) if first.number else not first.gone):
                compacted.append(first)
            elif (whole := merged(together)) is not None:
                compacted.append(whole)
        self.segments = compacted


def _together(segments: Sequence[Segment], largest: int) -> list[list[Segment]]:
    """Which segments next to each other are to be one, of at most so many tuples."""
    groups: list[list[Segment]] = [[segment] for segment in segments]
    size = _SMALL
    while size <= largest:
        # From the newest back: those that are not larger than the size.
        small = 0
        while small < len(groups) and sum(segment.living for segment in groups[-1 - small]) <= size:
            small += 1
        if small >= _MERGED_AT_ONCE:
            groups[-small:] = [[segment for group in groups[-small:] for segment in group]]
        size *= _MERGED_AT_ONCE
    return groups


def equal(left: pa.Table, right: pa.Table, of_left: Sequence[str], of_right: Sequence[str]) -> Flags:
    """Where tuples of two tables agree in columns of each, shape (n,) both; bool, shape (n,). Nulls equal nothing."""
    same = np.ones(left.num_rows, np.bool_)
    for mine, theirs in zip(of_left, of_right, strict=True):
        same &= pc.equal(left[mine], right[theirs]).fill_null(False).to_numpy()
    return same
