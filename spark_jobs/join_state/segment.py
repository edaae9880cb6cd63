"""Tuples of one stream that lie together in a bucket's state: first in memory, then in a file that never changes.

The file is a checked file (spark_jobs.durable_files) of one Arrow IPC stream: the tuples as they came, and beside them
what the state looks them up by, in columns whose names begin with a dot, which those of a stream never do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.durable_files import HEADER_BYTES, FileKind, checked_content
from spark_jobs.errors import CacheDamagedError, StateDamagedError
from spark_jobs.join_state.spill_files import STATE_ADVICE
from spark_jobs.joins.structures.sorted_lookup import first_positions, overlaps

Int64Array = NDArray[np.int64]
Flags = NDArray[np.bool_]

_GREATEST = 2**63 - 1
SEGMENT = FileKind(b"FRSHSGM\0", 1, "segment of a bucket's tuples", STATE_ADVICE)
_NO_END = -(2**63)
# Ids, starts and ends by row; the rows by end; codes of keys and of event ids, ascending, and the rows of each.
_INDEX = (".id", ".start", ".end", ".by_end", ".key", ".by_key", ".event", ".by_event")
# High ends of keys by row, where keys are intervals.
_HIGH = ".high"


class Segment:
    """Tuples of one stream, in the order of their ids, with those that have left and are not yet dropped.

    A tuple leaves when its end is passed, or before, because punctuations say so: then it is purged.

    Args:
        index: of n tuples: ids, ascending; starts; ends; rows in the order of the ends; codes of the keys, ascending;
            their rows; codes of the event ids, ascending; their rows. Shape (n,) each.
        tuples: the tuples as they came, shape (n,).
        joined: bool, shape (n,): which are in a result; changed as that changes.
        purged: bool, shape (n,): which have been purged; None: none.
        number: of the file; 0 where there is none.
        highs: int64, shape (n,): of keys that are intervals the high ends, by row; else None.

    Attributes:
        gone: how many rows have left the state, and are forgotten.
    """

    def __init__(
        self,
        index: Sequence[Int64Array],
        tuples: pa.Table,
        joined: Flags,
        purged: Flags | None = None,
        number: int = 0,
        highs: Int64Array | None = None,
    ) -> None:
        self._index = tuple(index)
        self.ids, self.starts, self.ends, self._by_end = self._index[:4]
        self._keys, self._by_key, self._events, self._by_event = self._index[4:]
        self.tuples = tuples
        self.joined = joined
        self.purged = np.zeros(len(self.ids), np.bool_) if purged is None else purged
        self.number = number
        self.highs = highs
        self.gone = int(np.count_nonzero(self.purged))
        self._passed = 0  # How many rows, in the order of their ends, are forgotten.
        self._bound = _NO_END  # What ends there or before has left.
        self._dense = int(self.ids[-1]) - int(self.ids[0]) == len(self.ids) - 1

    @classmethod
    def of(
        cls, columns: Sequence[Int64Array], tuples: pa.Table, joined: Flags, highs: Int64Array | None = None
    ) -> Segment:
        """Tuples in memory, from their ids, keys, starts, ends and codes of the event ids by row. O(n log n)."""
        ids, keys, starts, ends, events = columns
        by_end, by_key, by_event = np.argsort(ends, kind="stable"), np.argsort(keys), np.argsort(events)
        index = (ids, starts, ends, by_end, keys[by_key], by_key, events[by_event], by_event)
        return cls(index, tuples, joined, highs=highs)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def living(self) -> int:
        """How many are not forgotten."""
        return len(self.ids) - self.gone

    def rows_of(self, ids: Int64Array) -> Int64Array:
        """Where tuples stand that are here; int64, shape (m,). O(m), or O(m log n) where others were dropped."""
        return ids - self.ids[0] if self._dense else np.searchsorted(self.ids, ids)

    def leave(self, bound: int, forgotten: int) -> Int64Array:
        """Let the tuples go that end at `bound` or before; the rows of those that never were in a result, ascending.

        They count as joined afterwards. O(log n + tuples that go, or have gone and are not forgotten).

        Args:
            bound: what ends there or before meets none that is still to come.
            forgotten: not above `bound`: what ends there or before is not known any more when it comes again.
        """
        self._bound, ends, by_end = bound, self.ends, self._by_end
        if self._passed == len(by_end) or ends[by_end[self._passed]] > bound:
            return np.empty(0, np.int64)
        until = bisect_right(range(len(by_end)), bound, lo=self._passed, key=lambda i: ends[by_end[i]])
        rows = by_end[self._passed : until]
        rows = rows[~self.purged[rows]]
        alone = np.sort(rows[~self.joined[rows]])
        self.joined[alone] = True
        self.gone += int(np.count_nonzero(ends[rows] <= forgotten))
        self._passed = bisect_right(
            range(len(by_end)), forgotten, lo=self._passed, hi=until, key=lambda i: ends[by_end[i]]
        )
        return alone

    def purge(self, rows: Int64Array) -> None:
        """Let some tuples go that are there. O(rows)."""
        self.purged[rows] = True
        self.gone += len(rows)

    def are_there(self, rows: Int64Array) -> Flags:
        """Which rows have not left; bool, shape (m,). O(m)."""
        there: Flags = (self.ends[rows] > self._bound) & ~self.purged[rows]
        return there

    def living_rows(self) -> Int64Array:
        """The rows that are not forgotten, ascending; int64, shape (m,). O(n log n)."""
        if not self.gone:
            return np.arange(len(self))
        rows = self._by_end[self._passed :]
        return np.sort(rows[~self.purged[rows]])

    def same_keys(self, keys: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Pairs of an asked row and a row here that have one code of the key; both int64, shape (m,).

        Those of the asked rows ascend.

        Args:
            keys: int64, shape (k,), ascending. O(k log(1 + n / k) + m).
        """
        return _pairs(keys, self._keys, self._by_key)

    def overlapping(self, lows: Int64Array, lasts: Int64Array, width: int) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Pairs of an asked interval and a key here that have a value in common; intervals contain their ends.

        Args:
            lows, lasts: int64, shape (k,), the asked ones; the lows ascend.
            width: a key x is the interval [x, x + width], unless keys here are intervals themselves.

        Returns:
            The asked row and the row here of each pair, int64, shape (m,); and from where to where they overlap, shape
            (2, m). O(k log(1 + n / k)), and O(1) for each pair that would overlap if all were as long as the longest.
        """
        keys, ends = self._keys, add_within(self._keys, width) if self.highs is None else self._ends
        asked, found = overlaps(keys, ends, lows, lasts, width if self.highs is None else self._longest)
        values = np.stack((np.maximum(lows[asked], keys[found]), np.minimum(lasts[asked], ends[found])))
        return asked, self._by_key[found], values

    @cached_property
    def _ends(self) -> Int64Array:
        """The last values of keys that are intervals, in the order of the keys."""
        assert self.highs is not None
        return self.highs[self._by_key] - 1

    @cached_property
    def _longest(self) -> int:
        return int((self._ends - self._keys).max())

    def count_keys(self, keys: Int64Array) -> Int64Array:
        """How many tuples have each of some codes of the key, those that have left among them; int64, shape (k,).

        Args:
            keys: int64, shape (k,), ascending. O(k log(1 + n / k)).
        """
        return np.searchsorted(self._keys, keys, side="right") - first_positions(self._keys, keys)

    def same_events(self, events: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The same by the codes of event ids."""
        return _pairs(events, self._events, self._by_event)

    def keys(self) -> Int64Array:
        """Codes of the keys by row; int64, shape (n,). O(n)."""
        return _by_row(self._keys, self._by_key)

    def events(self) -> Int64Array:
        """Codes of the event ids by row; int64, shape (n,). O(n)."""
        return _by_row(self._events, self._by_event)

    def content(self) -> pa.Buffer:
        """What its file holds. O(bytes)."""
        table = self.tuples.combine_chunks()
        for name, values in zip(_INDEX, self._index, strict=True):
            table = table.append_column(name, pa.array(values))
        if self.highs is not None:
            table = table.append_column(_HIGH, pa.array(self.highs))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue()

    def mapped(self, folder: Path) -> Segment:
        """The same, with its tuples in the file that was written of its content. O(1)."""
        with pa.memory_map(str(path_of(folder, self.number))) as file:
            mapped = _from_content(file.read_buffer().slice(HEADER_BYTES), self.joined, self.purged, self.number)
        mapped.gone, mapped._passed, mapped._bound = self.gone, self._passed, self._bound
        return mapped


def path_of(folder: Path, number: int) -> Path:
    """Where a segment lies."""
    return folder / f"segment.{number:012}"


def read_segment(folder: Path, number: int, joined: Flags, purged: Flags) -> Segment:
    """A segment of a file, which is mapped. O(bytes): it is checked.

    Raises:
        StateDamagedError: the file is missing, or not as it was written.
    """
    path = path_of(folder, number)
    try:
        segment = _from_content(checked_content(SEGMENT, number, path, mapped=True), joined, purged, number)
    except FileNotFoundError as error:
        raise StateDamagedError(f"{path} is missing. {STATE_ADVICE}") from error
    except CacheDamagedError as error:
        raise StateDamagedError(str(error)) from error
    if len(segment) != len(joined):
        raise StateDamagedError(f"{path} holds {len(segment)} tuples instead of {len(joined)}. {STATE_ADVICE}")
    return segment


def merged(segments: Sequence[Segment]) -> Segment | None:
    """One segment of all tuples of several, in their order, that are not forgotten; None where there is none.

    O(bytes + n log n).
    """
    kept = [(segment, segment.living_rows()) for segment in segments if segment.living]
    if not kept:
        return None
    columns = [
        np.concatenate([column(segment)[rows] for segment, rows in kept])
        for column in (
            lambda segment: segment.ids,
            Segment.keys,
            lambda segment: segment.starts,
            lambda segment: segment.ends,
            Segment.events,
        )
    ]
    joined = np.concatenate([segment.joined[rows] for segment, rows in kept])
    tables = [segment.tuples.take(rows) if segment.gone else segment.tuples for segment, rows in kept]
    highs = [segment.highs[rows] for segment, rows in kept if segment.highs is not None]
    tuples = pa.concat_tables(tables, promote_options="default")
    whole = Segment.of(columns, tuples, joined, np.concatenate(highs) if highs else None)
    whole._bound = max(segment._bound for segment, _ in kept)
    return whole


def _pairs(asked: Int64Array, codes: Int64Array, rows: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Positions of asked codes, ascending, and rows that have the same; of the ascending codes the rows are given."""
    beginning = int(np.searchsorted(asked, codes[0]))
    asked = asked[beginning : np.searchsorted(asked, codes[-1], side="right")]
    first = first_positions(codes, asked)
    there = np.flatnonzero(codes[first] == asked)
    first, asked = first[there], asked[there]
    counts = np.searchsorted(codes, asked, side="right") - first
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(beginning + there, counts), rows[np.repeat(first, counts) + offsets]


def add_within(values: Int64Array, width: int) -> Int64Array:
    """Each value plus a width, or the greatest there is."""
    return np.minimum(values, _GREATEST - width) + width


def _by_row(codes: Int64Array, rows: Int64Array) -> Int64Array:
    ordered = np.empty(len(rows), np.int64)
    ordered[rows] = codes
    return ordered


def _from_content(content: pa.Buffer, joined: Flags, purged: Flags, number: int) -> Segment:
    table = pa.ipc.open_stream(content).read_all()
    index = [table[name].chunk(0).to_numpy() for name in _INDEX]
    highs = table[_HIGH].chunk(0).to_numpy() if _HIGH in table.column_names else None
    own = [name for name in (*_INDEX, _HIGH) if name in table.column_names]
    return Segment(index, table.drop_columns(own), joined, purged, number, highs)
