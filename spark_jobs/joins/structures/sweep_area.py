"""Sweep areas: tuples with validity that still find partners, by value and by end (004 §3.1, §5.2).

    stream 0   [ ... oldest .... newest ... free ... ]      a ring for each stream in one array: tuples enter at one
    stream 1   [ newest ... free ... oldest .... ]          end, and leave at the other when their validity is over

    mix(level, cell) -> bucket:  stream 0 -> newest -> older -> ...      heads of all streams side by side
                                 stream 1 -> newest -> ...

A value is an interval [low, last] of integers, one integer where they are equal. It lies in a cell as wide as the
next power of two, its level; a query looks into those cells of each level in use that could hold what it overlaps:
one cell for equal keys, two or three for intervals of one length. Where it would look into more cells than there are
tuples, it looks at the tuples.

In a window whose ends never fall, who comes first leaves first, and leaving costs nothing but the count: chains go from
newer to older, so they end where the ring does. A tuple whose time is over before that of an older one is dead where it
stands, until the ring has passed it, or a `rebuild`. To find such tuples, of every 128 rows the least end is known, and
of every 8 such zones (a zone map; Moerkotte: Small Materialized Aggregates, VLDB 1998): rows are looked at only where
one of them leaves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.hashing import mix
from spark_jobs.columns.jit import kernel, kernel_part, read_only

Int64Array = NDArray[np.int64]
# Tuples, heads of the chains, rings, tuples by stream and level, how many heads are in use, least ends: a row for each
# group of zones, first that of all of them.
_State = tuple[Int64Array, Int64Array, Int64Array, Int64Array, Int64Array, Int64Array]

LOW, LAST, START, END, ID, LINK, EXTRA = range(7)
"""Columns of a tuple; what the owner adds follows."""
COLUMNS = 6
MATCHED_ROW = 5
"""Tuples outside are matrices, shape (6 + extra, n), a row for each column; whether matched stands for the link."""

ROW, NUMBER, FOUND_ID, FOUND_LOW, FOUND_LAST, FOUND_START, FOUND_END = range(7)
FOUND_COLUMNS = 7

# Of a ring: first row, rows, number of the oldest tuple, number of the next, number of the tuple in the first row at
# the present turn, at most the least end, how many tuples are dead.
_BASE, _ROOM, _TAIL, _NEXT, _TURN, _LEAST_END, _DEAD = range(7)
_RING_COLUMNS = 7
_LEVELS = 64
_WHOLE_LINE = 63
_LINK_SHIFT = 8
_LEVEL_SHIFT, _LEVEL_MASK = 1, 63
_BEGIN = -1
CURSOR = 5
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
# The end of a tuple that is dead: it overlaps nothing.
_NO_END = _LOWEST
# Rows of a ring whose least end is known, and zones of which the least of these is.
_ZONE = 128
_GROUP = 8
_FIRST_CAPACITY = 4096

_HALF_BITS = np.uint64(32)
_LEVEL_STEP = np.uint64(0xD1B54A32D192ED03)
# Queries looked at together: the heads of all their chains are read before the first is followed, so that the waits
# for memory overlap.
_BLOCK = 64
# Tuples of a chain, and cells of a query, that are waited for side by side. One chain in a hundred is longer than
# five: a wait of its own is so much dearer that even that counts.
_TOUCHED = 8
_TOUCHED_CELLS = 3
_FIRST_ROOM = 64


class Dropped(NamedTuple):
    """What has left an area: how many tuples, and the ids of those that never matched, int64, shape (u,)."""

    tuples: int
    unmatched: Int64Array


class SweepArea:
    """Sweep areas of several streams in one array, which they share by need.

    A tuple has a number in its stream: 1, 2, ... as they come, anew after a `rebuild`.

    Args:
        capacity: how many tuples all streams have room for together.
        streams: how many there are.
        extra: columns more that the owner keeps with each tuple.

    Attributes:
        tuples: int64, shape (capacity, 6 + extra).
    """

    def __init__(self, capacity: int, streams: int, extra: int = 0) -> None:
        self.capacity = capacity
        self.streams = streams
        # Not zeroed: this way numpy asks for large pages, which spare a wait at every tuple of a large area.
        self.tuples: Int64Array = np.empty((capacity, COLUMNS + extra), np.int64)
        self._heads: Int64Array = np.empty((_bucket_count(capacity, streams), streams), np.int64)
        self._rings: Int64Array = np.zeros((streams, _RING_COLUMNS), np.int64)
        self._levels: Int64Array = np.zeros((streams, _LEVELS), np.int64)
        self._buckets: Int64Array = np.zeros(1, np.int64)
        self._least_ends: Int64Array = np.empty((_groups(capacity, streams), 1 + _GROUP), np.int64)
        self._state: _State = (
            self.tuples,
            self._heads,
            self._rings,
            self._levels,
            self._buckets,
            self._least_ends,
        )
        self.clear()

    @staticmethod
    def bytes_for(capacity: int, streams: int, extra: int = 0) -> int:
        """Memory of this capacity, in bytes: 56 a tuple."""
        rows = capacity * (COLUMNS + extra) + _bucket_count(capacity, streams) * streams
        return (rows + _groups(capacity, streams) * (1 + _GROUP) + streams * (_RING_COLUMNS + _LEVELS) + 1) * 8

    def __len__(self) -> int:
        return int((self._rings[:, _NEXT] - self._rings[:, _TAIL] - self._rings[:, _DEAD]).sum())

    def count(self, stream: int) -> int:
        """How many tuples of a stream are held. O(1)."""
        return self.span(stream) - int(self._rings[stream, _DEAD])

    def span(self, stream: int) -> int:
        """How many numbers there are from a stream's oldest tuple to its newest, dead ones among them. O(1)."""
        return int(self._rings[stream, _NEXT] - self._rings[stream, _TAIL])

    def room(self, stream: int) -> int:
        """How many tuples `insert` takes of a stream now. O(1)."""
        return int(self._rings[stream, _ROOM]) - self.span(stream)

    @property
    def free(self) -> int:
        """How many tuples more all streams have room for after a `rebuild`."""
        return self.capacity - len(self)

    @property
    def is_rebuild_due(self) -> bool:
        """Whether as many tuples are dead as live: a `rebuild` costs no more than they did."""
        return int(self._rings[:, _DEAD].sum()) >= max(_BLOCK, len(self))

    def clear(self) -> None:
        """Forget all tuples; the streams have alike room, at first a little of all that there is. O(1)."""
        self._levels[:] = 0
        self._rings[:] = 0
        self._rings[:, [_TAIL, _NEXT, _TURN]] = 1
        self._rings[:, _LEAST_END] = _HIGHEST
        self._least_ends[:] = _HIGHEST
        parts = np.arange(self.streams + 1) * min(self.capacity, _FIRST_CAPACITY) // self.streams
        self._rings[:, _BASE], self._rings[:, _ROOM] = parts[:-1], np.diff(parts)
        self._buckets[0] = _bucket_count(int(parts[-1]), self.streams)
        self._heads[: self._buckets[0]] = 0

    def insert(self, stream: int, columns: Int64Array) -> int:
        """Add tuples; there must be room.

        Args:
            stream: whose they are.
            columns: int64, shape (6 + extra, n): low, last, start, end, id, whether matched (0 or 1), and the rest.

        Returns:
            The number of the first; the others follow. O(n).
        """
        first = int(self._rings[stream, _NEXT])
        _insert(self._state, stream, read_only(np.ascontiguousarray(columns)))
        return first

    def query(self, stream: int, asked: Int64Array, cursor: Int64Array, found: Int64Array, *, mark: bool) -> int:
        """Find the tuples of a stream that overlap what is asked for, in value and in validity, while there is room.

        Args:
            stream: in which to look.
            asked: int64, shape (4 or more, n): low, last, start and end of each query.
            cursor: int64, shape (5,): where to go on, zeros for the beginning (`begin`); changed to where it ends.
            found: int64, shape (7, m), filled: row of the query, number and id of the tuple, and what both have in
                common: low, last, start, end.
            mark: whether what is found is in a result by that.

        Returns:
            How many were found; `ended` tells whether that is all. O(cells + tuples in them).
        """
        return int(_query(self._state, stream, read_only(asked), cursor, found, mark))

    def reorganise(self, stream: int, bound: int) -> Dropped:
        """Let all tuples of a stream go that end at `bound` or before.

        O(rows of the zones in which a tuple goes), and the least ends of the others; O(1) where none goes.
        """
        if self._rings[stream, _LEAST_END] > bound:
            return Dropped(0, np.empty(0, np.int64))
        before = self.count(stream)
        unmatched = _reorganise(self._state, stream, bound)
        return Dropped(before - self.count(stream), unmatched)

    def forget(self, stream: int, keys: Int64Array, ids: Int64Array) -> int:
        """Let tuples of a stream go before their time, as if they had been in a result.

        O(n + tuples of these keys, each with the logarithm of how many share its key).

        Args:
            stream: whose they are.
            keys: int64, shape (n,), ascending: the one value that each has, both low and last.
            ids: int64, shape (n,): ascending among equal keys.

        Returns:
            how many were there.
        """
        before = self.count(stream)
        _forget(self._state, stream, read_only(keys), read_only(ids))
        return before - self.count(stream)

    def rebuild(self, bounds: Int64Array, wanted: Int64Array | None = None) -> list[Dropped]:
        """Drop all tuples whose validity is over, share the room anew, and link the others afresh. O(tuples).

        Each stream gets twice the room that it needs, as long as there is that; then what is free is shared by
        need, so that a stream that brings more gets more. Tuples lie close together for as long as they are few.

        Args:
            bounds: int64, shape (streams,): a tuple goes if it ends at its stream's bound or before.
            wanted: int64, shape (streams,): tuples that are to come; at most what is `free` in all.

        Returns:
            What was dropped, stream by stream.
        """
        before = self._rings[:, _NEXT] - self._rings[:, _TAIL] - self._rings[:, _DEAD]
        unmatched, streams = _pack(self._state, read_only(bounds))
        held = self._rings[:, _NEXT] - self._rings[:, _TAIL]
        needed = held if wanted is None else held + wanted
        rooms = 2 * needed + _BLOCK
        if rooms.sum() > self.capacity:
            free = self.capacity - int(needed.sum())
            rooms = needed + free * needed // max(1, int(needed.sum()))
        self._buckets[0] = min(len(self._heads), _bucket_count(int(rooms.sum()), self.streams))
        self._heads[: self._buckets[0]] = 0
        _spread(self._state, rooms)
        return [Dropped(int(before[s] - held[s]), unmatched[streams == s]) for s in range(self.streams)]

    def take_oldest(self, stream: int, count: int) -> Int64Array:
        """Take out the oldest tuples of a stream, without dead ones among them.

        Returns:
            int64, shape (6 + extra, n), n <= count; n > 0 where there is any. O(count).
        """
        rows = self._rows_of(stream, min(count, self.span(stream)))
        rows = rows[self.tuples[rows, END] != _NO_END]
        taken = self._columns(rows)
        _let_go(self._state, stream, rows)
        return taken

    def oldest(self, stream: int, count: int, skipped: int = 0) -> Int64Array:
        """A copy of the oldest tuples of a stream, as `insert` takes them, beyond some that are skipped. O(count).

        Dead ones are among them: they end at the lowest integer, so that they match nothing.
        """
        return self._columns(self._rows_of(stream, min(count, self.span(stream) - skipped), skipped))

    def extra(self, stream: int, numbers: Int64Array) -> Int64Array:
        """What the owner keeps with tuples; int64, shape (extra, n). O(n)."""
        ring = self._rings[stream]
        rows = ring[_BASE] + numbers - ring[_TURN]
        rows += np.where(numbers < ring[_TURN], ring[_ROOM], 0)
        return np.ascontiguousarray(self.tuples[rows, EXTRA:].T)

    def mark(self, stream: int, numbers: Int64Array) -> None:
        """Remember that tuples are in a result. O(n)."""
        _mark(self._state, stream, read_only(numbers))

    def first_number(self, stream: int) -> int:
        """The number of a stream's oldest tuple. O(1)."""
        return int(self._rings[stream, _TAIL])

    def memory_used(self) -> int:
        """Bytes of its arrays."""
        return sum(array.nbytes for array in self._state)

    def check(self) -> None:
        """Assert that rings don't overlap, that every tuple is in the chain of its cell, and that none is overlooked.

        O(capacity).
        """
        bases, rooms = self._rings[:, _BASE], self._rings[:, _ROOM]
        assert bases.tolist() == [0, *np.cumsum(rooms)[:-1].tolist()]
        assert rooms.sum() <= self.capacity
        for stream in range(self.streams):
            ring = self._rings[stream]
            span = self.span(stream)
            assert 0 <= span <= ring[_ROOM]
            assert ring[_TURN] <= ring[_NEXT] <= ring[_TURN] + ring[_ROOM]
            rows = self._rows_of(stream, span)
            numbers = np.arange(ring[_TAIL], ring[_NEXT])
            living = self.tuples[rows, END] != _NO_END
            assert ring[_DEAD] == span - living.sum()
            assert living[:1].all()
            held = self.tuples[rows[living]]
            assert (held[:, END] >= ring[_LEAST_END]).all()
            zones = (rows[living] - ring[_BASE]) // _ZONE + ring[_BASE] // _ZONE + stream
            assert (held[:, END] >= self._least_ends[zones // _GROUP, 1 + zones % _GROUP]).all()
            assert (held[:, END] >= self._least_ends[zones // _GROUP, 0]).all()
            levels = held[:, LINK] >> _LEVEL_SHIFT & _LEVEL_MASK
            assert np.bincount(levels, minlength=_LEVELS).tolist() == self._levels[stream].tolist()
            for number, row in zip(numbers[living].tolist(), held.tolist(), strict=True):
                level = row[LINK] >> _LEVEL_SHIFT & _LEVEL_MASK
                link = int(self._heads[_bucket_number(row[LOW], level, int(self._buckets[0])), stream])
                while link > number:
                    link = int(self.tuples[self._row(stream, link), LINK] >> _LINK_SHIFT)
                assert link == number

    def _row(self, stream: int, number: int) -> int:
        ring = self._rings[stream]
        return int(ring[_BASE] + number - ring[_TURN] + (ring[_ROOM] if number < ring[_TURN] else 0))

    def _columns(self, rows: Int64Array) -> Int64Array:
        columns = np.ascontiguousarray(self.tuples[rows].T)
        columns[MATCHED_ROW] &= 1
        return columns

    def _rows_of(self, stream: int, count: int, skipped: int = 0) -> Int64Array:
        """Rows of the oldest tuples of a stream."""
        ring = self._rings[stream]
        numbers = np.arange(ring[_TAIL] + skipped, ring[_TAIL] + skipped + count)
        rows: Int64Array = ring[_BASE] + numbers - ring[_TURN] + np.where(numbers < ring[_TURN], ring[_ROOM], 0)
        return rows


def begin() -> Int64Array:
    """A cursor at the beginning of a query."""
    cursor = np.zeros(CURSOR, np.int64)
    cursor[3] = _BEGIN
    return cursor


def ended(asked: Int64Array, cursor: Int64Array) -> bool:
    """Whether a query has found all that there is."""
    return int(cursor[0]) == asked.shape[1]


def _bucket_count(capacity: int, streams: int) -> int:
    """As many for each stream as it has tuples when all have alike."""
    return max(1, capacity // streams)


def _groups(capacity: int, streams: int) -> int:
    """Zones begin with a ring: each stream has at most two that are not whole."""
    return -(-(capacity // _ZONE + 2 * streams) // _GROUP)


def _bucket_number(low: int, level: int, buckets: int) -> int:
    return int(_bucket_of(low >> level, level, buckets))


@kernel_part
def _bucket(cell: Any, level: Any, buckets: Any) -> Any:
    code = mix(np.uint64(cell) + np.uint64(level) * _LEVEL_STEP)
    return np.int64(((code >> _HALF_BITS) * np.uint64(buckets)) >> _HALF_BITS)


@kernel
def _bucket_of(cell: int, level: int, buckets: int) -> int:
    return _bucket(cell, level, buckets)


@kernel_part
def _level_of(low: Any, last: Any) -> Any:
    """The smallest level whose cells are at least as wide as the interval."""
    width = np.uint64(last) - np.uint64(low)
    level = 0
    while width and level < _WHOLE_LINE:
        width >>= np.uint64(1)
        level += 1
    return level


@kernel_part
def _first_cell(low: Any, level: Any) -> Any:
    """The first cell in which an interval may begin that reaches a point."""
    if level == _WHOLE_LINE:
        return np.int64(-1)
    mask = (np.int64(1) << level) - 1
    return (low >> level) - ((low & mask) != mask)


@kernel_part
def _row_at(ring: Int64Array, number: Any) -> Any:
    row = ring[_BASE] + number - ring[_TURN]
    return row + ring[_ROOM] if number < ring[_TURN] else row


@kernel_part
def _zone_of(ring: Int64Array, stream: Any, row: Any) -> Any:
    return ring[_BASE] // _ZONE + stream + (row - ring[_BASE]) // _ZONE


@kernel_part
def _link_one(state: _State, stream: Any, row: Any, number: Any, level: Any, bucket: Any, matched: Any) -> None:
    tuples, heads, rings, levels, _, least_ends = state
    end = tuples[row, END]
    rings[stream, _LEAST_END] = min(rings[stream, _LEAST_END], end)
    group, zone = divmod(_zone_of(rings[stream], stream, row), _GROUP)
    least_ends[group, 0] = min(least_ends[group, 0], end)
    least_ends[group, 1 + zone] = min(least_ends[group, 1 + zone], end)
    tuples[row, LINK] = heads[bucket, stream] << _LINK_SHIFT | level << _LEVEL_SHIFT | matched
    heads[bucket, stream] = number
    levels[stream, level] += 1


@kernel
def _insert(state: _State, stream: int, columns: Int64Array) -> None:
    tuples, heads, rings, _, buckets, _ = state
    ring = rings[stream]
    width = len(columns)
    levels, places, links = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    for first in range(0, columns.shape[1], _BLOCK):
        count = min(_BLOCK, columns.shape[1] - first)
        for i in range(count):
            levels[i] = _level_of(columns[LOW, first + i], columns[LAST, first + i])
            places[i] = _bucket(columns[LOW, first + i] >> levels[i], levels[i], buckets[0])
        # Read here so that these cache misses overlap. It is read again below: an earlier tuple of the block may have
        # changed it.
        for i in range(count):
            links[i] = heads[places[i], stream]
        for i in range(count):
            number = ring[_NEXT]
            if number == ring[_TURN] + ring[_ROOM]:
                ring[_TURN] = number
            row = ring[_BASE] + number - ring[_TURN]
            for column in range(width):
                tuples[row, column] = columns[column, first + i]
            _link_one(state, stream, row, number, levels[i], places[i], columns[MATCHED_ROW, first + i])
            ring[_NEXT] = number + 1


@kernel_part
def _touch(state: _State, stream: Any, level: Any, asked: Int64Array, first: Any, work: Any) -> Any:
    """Read the first tuples of the chains that a block of queries is going to follow, all chains side by side.

    Where the first chain of each query begins is kept.

    Each loop does next to nothing but read what does not depend on what it reads: so the processor has most of a
    block's reads under way at once.
    """
    tuples, heads, rings, _, buckets, _ = state
    ring = rings[stream]
    begins, links = work
    touched = np.int64(0)
    there, width = 0, min(_BLOCK, asked.shape[1] - first)
    for query in range(first, first + width):
        begins[query - first] = there
        cell, final = _first_cell(asked[LOW, query], level), asked[LAST, query] >> level
        for _ in range(_TOUCHED_CELLS):
            links[there] = _bucket(cell, level, buckets[0])
            there += 1
            if cell >= final:
                break
            cell += 1
    for i in range(there):
        links[i] = heads[links[i], stream]
    for i in range(width):
        begins[i] = links[begins[i]]
    for _ in range(_TOUCHED):
        count, there = there, 0
        for i in range(count):
            links[there] = links[i]
            there += links[i] >= ring[_TAIL]
        for i in range(there):
            row = _row_at(ring, links[i])
            touched += tuples[row, LOW]  # It may lie in another line of the cache than the link.
            links[i] = tuples[row, LINK] >> _LINK_SHIFT
    return touched


@kernel_part
def _too_many_cells(used: Int64Array, low: Any, last: Any, held: Any) -> Any:
    """Whether it takes more to look into all cells that an interval touches than at all tuples."""
    if last >> used[0] == low >> used[0]:
        return False
    cells = np.float64(0)
    for level in used:
        cells += np.float64(last >> level) - np.float64(low >> level)
    return cells > held


@kernel
def _query(state: _State, stream: int, asked: Int64Array, cursor: Int64Array, found: Int64Array, mark: bool) -> int:
    tuples, heads, rings, levels, buckets, _ = state
    ring = rings[stream]
    tail, held = ring[_TAIL], ring[_NEXT] - ring[_TAIL]
    used = np.flatnonzero(levels[stream])
    firsts, links = np.empty(_BLOCK, np.int64), np.empty(_BLOCK * _TOUCHED_CELLS, np.int64)
    count, most = 0, found.shape[1]
    row, place, cell, link = cursor[0], cursor[1], cursor[2], cursor[3]
    if held == 0:
        row = asked.shape[1]
    block = row
    while row < asked.shape[1]:
        if row == block:
            cursor[4] += _touch(state, stream, used[0], asked, row, (firsts, links))
            block += _BLOCK
        low, last = asked[LOW, row], asked[LAST, row]
        scanning = _too_many_cells(used, low, last, held)
        while place < len(used):
            level = used[place]
            final = np.int64(0) if level == _WHOLE_LINE else last >> level
            if link == _BEGIN:
                cell = _first_cell(low, level)
                if scanning:
                    link = ring[_NEXT] - 1
                elif place == 0:
                    link = firsts[row + _BLOCK - block]
                else:
                    link = heads[_bucket(cell, level, buckets[0]), stream]
            while True:
                while link >= tail:
                    if count == most:
                        _mark_found(tuples, ring, found, count, mark)
                        cursor[0], cursor[1], cursor[2], cursor[3] = row, place, cell, link
                        return count
                    at = _row_at(ring, link)
                    packed = tuples[at, LINK]
                    here = (packed >> _LEVEL_SHIFT) & _LEVEL_MASK
                    # Without a branch, which would be mispredicted every other time: what is none is overwritten.
                    found[ROW, count], found[NUMBER, count] = row, link
                    in_cell = (here == level) & (tuples[at, LOW] >> level == cell)
                    count += (scanning | in_cell) & _common(tuples, at, asked, row, found, count)
                    link = link - 1 if scanning else packed >> _LINK_SHIFT
                if scanning or cell == final:
                    break
                cell += 1
                link = heads[_bucket(cell, level, buckets[0]), stream]
            place = len(used) if scanning else place + 1
            link = np.int64(_BEGIN)
        place = 0
        row += 1
    _mark_found(tuples, ring, found, count, mark)
    cursor[0], cursor[1], cursor[2], cursor[3] = row, 0, 0, _BEGIN
    return count


@kernel_part
def _common(tuples: Int64Array, at: Any, asked: Int64Array, row: Any, found: Int64Array, place: Any) -> Any:
    """Note a tuple's id and what a query has in common with it; whether that is anything."""
    low, last = max(asked[LOW, row], tuples[at, LOW]), min(asked[LAST, row], tuples[at, LAST])
    start, end = max(asked[START, row], tuples[at, START]), min(asked[END, row], tuples[at, END])
    found[FOUND_ID, place] = tuples[at, ID]
    found[FOUND_LOW, place], found[FOUND_LAST, place] = low, last
    found[FOUND_START, place], found[FOUND_END, place] = start, end
    return (low <= last) & (start < end)


@kernel_part
def _mark_found(tuples: Int64Array, ring: Int64Array, found: Int64Array, count: Any, mark: Any) -> None:
    if mark:
        for i in range(count):
            tuples[_row_at(ring, found[NUMBER, i]), LINK] |= 1


@kernel
def _reorganise(state: _State, stream: int, bound: int) -> Int64Array:
    _, _, rings, _, _, least_ends = state
    ring = rings[stream]
    ids, count = np.empty(_ZONE, np.int64), 0
    least = np.int64(_HIGHEST)
    first = _zone_of(ring, stream, ring[_BASE])
    until = _zone_of(ring, stream, ring[_BASE] + ring[_ROOM] - 1) + 1
    for group in range(first // _GROUP, (until - 1) // _GROUP + 1):
        if least_ends[group, 0] <= bound:
            for zone in range(max(first, group * _GROUP), min(until, (group + 1) * _GROUP)):
                if least_ends[group, 1 + zone % _GROUP] <= bound:
                    # Here, not for each tuple: an array that a loop may replace is counted, atomically, on each turn.
                    if count + _ZONE > len(ids):
                        ids = _doubled(ids)
                    count, least_end = _reorganise_zone(state, stream, zone - first, bound, ids, count)
                    least_ends[group, 1 + zone % _GROUP] = least_end
            least_ends[group, 0] = least_ends[
                group, 1:
            ].min()  # Of another ring's zones too, at the first and the last.
        least = min(least, least_ends[group, 0])
    ring[_LEAST_END] = least
    _pass_the_dead(state[0], ring)
    return ids[:count]


@kernel_part
def _reorganise_zone(state: _State, stream: Any, zone: Any, bound: Any, ids: Int64Array, count: Any) -> Any:
    """Let tuples of a zone go, counted from the ring's first; their ids to the others, where a zone has room.

    Returns how many ids there are by that, and the least end that is left.
    """
    tuples, _, rings, _, _, _ = state
    ring = rings[stream]
    least = np.int64(_HIGHEST)
    for offset in range(zone * _ZONE, min((zone + 1) * _ZONE, ring[_ROOM])):
        number = ring[_TURN] + offset
        if number >= ring[_NEXT]:
            number -= ring[_ROOM]
        row = ring[_BASE] + offset
        end = tuples[row, END]
        if number < ring[_TAIL] or end == _NO_END:
            continue
        if end > bound:
            least = min(least, end)
            continue
        if not tuples[row, LINK] & 1:
            ids[count] = tuples[row, ID]
            count += 1
        _die(state, stream, row)
    return count, least


@kernel_part
def _die(state: _State, stream: Any, row: Any) -> None:
    tuples, _, rings, levels, _, _ = state
    tuples[row, END] = _NO_END
    tuples[row, LINK] |= 1
    levels[stream, (tuples[row, LINK] >> _LEVEL_SHIFT) & _LEVEL_MASK] -= 1
    rings[stream, _DEAD] += 1


@kernel_part
def _pass_the_dead(tuples: Int64Array, ring: Int64Array) -> None:
    while ring[_TAIL] < ring[_NEXT] and tuples[_row_at(ring, ring[_TAIL]), END] == _NO_END:
        ring[_TAIL] += 1
        ring[_DEAD] -= 1


@kernel
def _let_go(state: _State, stream: int, rows: Int64Array) -> None:
    for i in range(len(rows)):
        _die(state, stream, rows[i])
    _pass_the_dead(state[0], state[2][stream])


@kernel
def _forget(state: _State, stream: int, keys: Int64Array, ids: Int64Array) -> None:
    tuples, heads, rings, _, buckets, _ = state
    ring = rings[stream]
    first = 0
    while first < len(keys):
        key, until = keys[first], first + 1
        while until < len(keys) and keys[until] == key:
            until += 1
        link = heads[_bucket(key, 0, buckets[0]), stream]
        while link >= ring[_TAIL]:
            at = _row_at(ring, link)
            link = tuples[at, LINK] >> _LINK_SHIFT
            if tuples[at, LOW] == key and tuples[at, LAST] == key and tuples[at, END] != _NO_END:
                place = first + np.searchsorted(ids[first:until], tuples[at, ID])
                if place < until and ids[place] == tuples[at, ID]:
                    _die(state, stream, at)
        first = until
    _pass_the_dead(tuples, ring)


@kernel
def _mark(state: _State, stream: int, numbers: Int64Array) -> None:
    tuples, _, rings, _, _, _ = state
    ring = rings[stream]
    for i in range(len(numbers)):
        tuples[_row_at(ring, numbers[i]), LINK] |= 1


@kernel_part
def _reverse(tuples: Int64Array, first: Any, until: Any) -> None:
    left, right = first, until - 1
    while left < right:
        for column in range(tuples.shape[1]):
            tuples[left, column], tuples[right, column] = tuples[right, column], tuples[left, column]
        left += 1
        right -= 1


@kernel
def _pack(state: _State, bounds: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Turn each ring so that it begins in its first row, and drop what is over; ids and streams of the unmatched."""
    tuples, _, rings, _, _, _ = state
    ids, streams, count = np.empty(_FIRST_ROOM, np.int64), np.empty(_FIRST_ROOM, np.int64), 0
    for stream in range(len(rings)):
        ring = rings[stream]
        base, turn = ring[_BASE], ring[_TURN]
        first = base
        if ring[_TAIL] < turn:
            # The newer part stands before the older: exchange the two, by three reversals, without memory.
            until = base + ring[_ROOM]
            middle = base + (ring[_TAIL] - turn + ring[_ROOM])
            _reverse(tuples, base, middle)
            _reverse(tuples, middle, until)
            _reverse(tuples, base, until)
        else:
            first = base + ring[_TAIL] - turn
        kept = base
        # After the exchange the older part is followed at once by the newer.
        for row in range(first, first + ring[_NEXT] - ring[_TAIL]):
            if tuples[row, END] > bounds[stream]:
                if row != kept:
                    for column in range(tuples.shape[1]):
                        tuples[kept, column] = tuples[row, column]
                kept += 1
            elif not tuples[row, LINK] & 1:
                if count == len(ids):
                    ids, streams = _doubled(ids), _doubled(streams)
                ids[count], streams[count] = tuples[row, ID], stream
                count += 1
        ring[_TAIL], ring[_TURN], ring[_NEXT], ring[_DEAD] = 1, 1, 1 + kept - base, 0
    return ids[:count], streams[:count]


@kernel
def _spread(state: _State, rooms: Int64Array) -> None:
    """Give packed rings new places, and link their tuples afresh."""
    tuples, _, rings, _, _, _ = state
    base = 0
    for stream in range(len(rings)):  # First together, to the left; then apart, from the right.
        old = rings[stream, _BASE]
        for i in range(rings[stream, _NEXT] - 1):
            for column in range(tuples.shape[1]):
                tuples[base + i, column] = tuples[old + i, column]
        rings[stream, _BASE] = base
        base += rings[stream, _NEXT] - 1
    until = rooms.sum()
    for stream in range(len(rings) - 1, -1, -1):
        old, until = rings[stream, _BASE], until - rooms[stream]
        for i in range(rings[stream, _NEXT] - 2, -1, -1):
            for column in range(tuples.shape[1]):
                tuples[until + i, column] = tuples[old + i, column]
        rings[stream, _BASE], rings[stream, _ROOM] = until, rooms[stream]
    _link_all(state)


@kernel
def _link_all(state: _State) -> None:
    tuples, _, rings, levels, _, least_ends = state
    levels[:] = 0
    least_ends[:] = _HIGHEST
    rings[:, _LEAST_END] = _HIGHEST
    for stream in range(len(rings)):
        for number in range(rings[stream, _TAIL], rings[stream, _NEXT]):
            row = _row_at(rings[stream], number)
            if tuples[row, END] != _NO_END:
                level = _level_of(tuples[row, LOW], tuples[row, LAST])
                bucket = _bucket(tuples[row, LOW] >> level, level, state[4][0])
                _link_one(state, stream, row, number, level, bucket, tuples[row, LINK] & 1)


@kernel
def _doubled(values: Int64Array) -> Int64Array:
    wider = np.empty(2 * len(values), np.int64)
    wider[: len(values)] = values
    return wider
