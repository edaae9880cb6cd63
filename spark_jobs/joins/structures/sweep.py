"""The sweep over tuples of several streams in order of key: n-way, for every predicate that a reach describes.

A tuple's reach is the last key in the order at which it still matches: its own key (equality), the last point of its
interval (overlap), its key plus the width (band). Tuples of all streams match, every two of them, if the largest key
is not above the least reach. So the sweep takes the tuples by key; each is joined with all that other streams have
kept; kept is whose reach is not below (004 §3.1, §6: insert, reorganise, query).

                       reach
    stream 0   |---------------|                 at x: 0 and 1 keep a tuple each,
    stream 1         |------------------|        x of stream 2 makes one result
    stream 2              x-----|
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.jit import kernel, kernel_part
from spark_jobs.joins.structures.sorted_runs import KEY, Layout

Int64Array = NDArray[np.int64]
Flags = NDArray[np.bool_]

FIRST_TIME, LAST_TIME = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_LOWEST = -(2**63)
# A kernel uses nothing of another file, whose change its cache would not notice.
_KEY = 0
assert _KEY == KEY
_NONE = -1
_FIRST_ROOM = 64
# The rows of the table, and the reach, as the kernel is given them.
_STREAMS, _GROUPS, _LINKS, _IDS, _STARTS, _ENDS, _REACH, _MORE = range(8)
# Of what a stream keeps.
_HEAD, _TAIL = 0, 1
# By depth: the stream asked, the tuple reached in what it keeps and the one before; and what those chosen up to it
# have in common: in time, and the group of all of them, or none.
_OTHER, _AT, _BEFORE, _START, _END, _GROUP = range(6)
_WALK_ROWS = 6


class Reach(NamedTuple):
    """How far a tuple reaches: the value in a row of the table, and so much more; never beyond the last integer."""

    row: int
    more: int


class Columns(NamedTuple):
    """Which columns of a table a sweep goes through.

    Attributes:
        read_until: the first columns, up to this one, were read from disk; of their streams nothing else is joined.
        kept: from here on, up to `new`, are tuples from before.
        new: from here on, up to `until`, are tuples in order: each result has at least one of them.
        until: the end.
    """

    read_until: int
    kept: int
    new: int
    until: int


class Window(NamedTuple):
    """Results that begin at `start` or after it, and before `until`, are told; others are known or come later."""

    start: int = FIRST_TIME
    until: int = LAST_TIME


ALWAYS = Window()


def reaches(table: Int64Array, reach: Reach) -> Int64Array:
    """How far each tuple reaches, int64, shape (n,). O(n)."""
    far = table[reach.row] + reach.more
    return np.where(far < table[reach.row], LAST_TIME, far) if reach.more > 0 else far


def sweep(
    table: Int64Array, layout: Layout, reach: Reach, columns: Columns, taking: Flags, window: Window
) -> Int64Array:
    """Results with at least one of the new tuples; their tuples' ids are complemented in the table.

    Tuples that were all together before, in one group, make no result: that is known.

    Args:
        table: int64, shape (layout.table_rows, n).
        layout: its rows.
        reach: by the predicate.
        columns: which tuples.
        taking: bool, shape (streams,): whose kept and new tuples take part. Of the other streams those that were read
            from disk do.
        window: in which results begin.

    Returns:
        int64, shape (streams + 2, m): ids, start and end of each result. O(tuples + results), where those that a
        stream keeps at a key all match; validity makes pairs that do not.
    """
    rows = np.array([layout.stream, layout.group, layout.link, layout.id, layout.start, layout.end, *reach], np.int64)
    streams = len(taking)
    ends, walk = np.full((2, streams), _NONE), np.empty((_WALK_ROWS, streams), np.int64)
    room = np.empty((streams + 2, _FIRST_ROOM), np.int64)
    found, count = _sweep(
        table, rows, np.array(columns, np.int64), taking, np.array(window, np.int64), ends, walk, room
    )
    return found[:, :count]


@kernel_part
def _is_alive(table: Int64Array, rows: Int64Array, column: Any, key: Any) -> Any:
    """Whether a tuple reaches a key."""
    value, more = table[rows[_REACH], column], rows[_MORE]
    # Written so that nothing overflows: the compiler takes it that nothing does.
    if more > 0:
        return key < _LOWEST + more or value >= key - more
    return value + more >= key


@kernel_part
def _keep(table: Int64Array, link: Any, ends: Int64Array, stream: Any, column: Any) -> None:
    """Put a tuple at the end of what its stream keeps."""
    table[link, column] = _NONE
    if ends[_HEAD, stream] == _NONE:
        ends[_HEAD, stream] = column
    else:
        table[link, ends[_TAIL, stream]] = column
    ends[_TAIL, stream] = column


@kernel_part
def _let_go(table: Int64Array, link: Any, walk: Int64Array, ends: Int64Array, depth: Any) -> None:
    """Take the tuple reached out of what its stream keeps, and go on to the next."""
    other, before, following = walk[_OTHER, depth], walk[_BEFORE, depth], table[link, walk[_AT, depth]]
    if before == _NONE:
        ends[_HEAD, other] = following
    else:
        table[link, before] = following
    if following == _NONE:
        ends[_TAIL, other] = before
    walk[_AT, depth] = following


@kernel_part
def _go_on(table: Int64Array, link: Any, walk: Int64Array, depth: Any) -> None:
    """Go on to the next tuple that the stream keeps."""
    walk[_BEFORE, depth] = walk[_AT, depth]
    walk[_AT, depth] = table[link, walk[_AT, depth]]


@kernel_part
def _others_of(stream: Any, walk: Int64Array, ends: Int64Array) -> Any:
    """Note the other streams; whether each keeps a tuple."""
    depth, partners = 0, True
    for other in range(ends.shape[1]):
        if other != stream:
            walk[_OTHER, depth] = other
            depth += 1
            partners = partners and ends[_HEAD, other] != _NONE
    return partners


@kernel_part
def _marked(table: Int64Array, row: Any, column: Any) -> Any:
    """Complement the tuple's id, if that has not been done yet; the id."""
    ident = table[row, column]
    if ident < 0:
        return ~ident
    table[row, column] = ~ident
    return ident


@kernel_part
def _wider(found: Int64Array) -> Any:
    wider = np.empty((found.shape[0], 2 * found.shape[1]), np.int64)
    for row in range(found.shape[0]):
        for column in range(found.shape[1]):
            wider[row, column] = found[row, column]
    return wider


@kernel_part
def _begin(table: Int64Array, rows: Int64Array, column: Any, walk: Int64Array, ends: Int64Array) -> None:
    """Stand before the first stream, with nothing chosen but a new tuple."""
    walk[_AT, 0], walk[_BEFORE, 0] = ends[_HEAD, walk[_OTHER, 0]], _NONE
    walk[_GROUP, 0] = table[rows[_GROUPS], column]
    walk[_START, 0], walk[_END, 0] = FIRST_TIME, LAST_TIME
    if rows[_STARTS] >= 0:
        walk[_START, 0], walk[_END, 0] = table[rows[_STARTS], column], table[rows[_ENDS], column]


@kernel_part
def _choose(table: Int64Array, rows: Int64Array, walk: Int64Array, depth: Any) -> None:
    """Note, a depth further, what the tuple reached has in common with those chosen before it."""
    place = walk[_AT, depth]
    start, end = walk[_START, depth], walk[_END, depth]
    if rows[_STARTS] >= 0:
        later, earlier = table[rows[_STARTS], place], table[rows[_ENDS], place]
        # max and min take the compiler a second.
        start, end = later if later > start else start, earlier if earlier < end else end
    walk[_START, depth + 1], walk[_END, depth + 1] = start, end
    walk[_GROUP, depth + 1] = walk[_GROUP, depth] if table[rows[_GROUPS], place] == walk[_GROUP, depth] else _NONE


@kernel
def _join(
    table: Int64Array,
    rows: Int64Array,
    column: Any,
    window: Int64Array,
    ends: Int64Array,
    walk: Int64Array,
    found: Int64Array,
    count: Any,
) -> Any:
    """Join a new tuple: depth by depth, through the other streams, with what they keep."""
    link, last, key = rows[_LINKS], ends.shape[1] - 2, table[_KEY, column]
    _begin(table, rows, column, walk, ends)
    depth = 0
    while depth >= 0:
        if walk[_AT, depth] == _NONE:
            depth -= 1
            if depth >= 0:
                _go_on(table, link, walk, depth)
            continue
        if not _is_alive(table, rows, walk[_AT, depth], key):
            _let_go(table, link, walk, ends, depth)
            continue
        _choose(table, rows, walk, depth)
        start, end = walk[_START, depth + 1], walk[_END, depth + 1]
        if start < end and start < window[1]:
            if depth < last:
                depth += 1
                walk[_AT, depth], walk[_BEFORE, depth] = ends[_HEAD, walk[_OTHER, depth]], _NONE
                continue
            if start >= window[0] and walk[_GROUP, depth + 1] == _NONE:
                if count == found.shape[1]:
                    found = _wider(found)
                for chosen in range(last + 1):
                    found[walk[_OTHER, chosen], count] = _marked(table, rows[_IDS], walk[_AT, chosen])
                found[table[rows[_STREAMS], column], count] = _marked(table, rows[_IDS], column)
                found[last + 2, count], found[last + 3, count] = start, end
                count += 1
        _go_on(table, link, walk, depth)
    return found, count


@kernel
def _sweep(
    table: Int64Array,
    rows: Int64Array,
    columns: Int64Array,
    taking: Flags,
    window: Int64Array,
    ends: Int64Array,
    walk: Int64Array,
    found: Int64Array,
) -> tuple[Int64Array, int]:
    """Go through the tuples; what of them is not new is kept only. How many results were found, and they."""
    link = rows[_LINKS]
    count = 0
    for column in range(columns[3]):
        if columns[0] <= column < columns[1]:
            continue
        stream, new = table[rows[_STREAMS], column], column >= columns[2]
        if column >= columns[1]:
            reached = new or _is_alive(table, rows, column, table[_KEY, columns[2]])
            if not (taking[stream] and reached):
                continue
        if new and _others_of(stream, walk, ends):
            found, count = _join(table, rows, column, window, ends, walk, found, count)
        _keep(table, link, ends, stream, column)
    return found, count
