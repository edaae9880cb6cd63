"""Joins tuples of one stream with those that `HashedStreams` holds of all others, without intermediate results.

    key -> bucket:  stream in turn 1 -> ... the key is there     go on
                    stream in turn 2 -> ... it is not            this tuple's work ends
                    stream in turn 3    not looked at

Only a key that every stream has is followed to the end of its chains; its results are the cross product of the lists
found there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.hashing import mix
from spark_jobs.columns.jit import kernel, kernel_part, read_only
from spark_jobs.joins.structures.hashed_streams import ARRIVAL, ID, KEY, STREAM, HashedStreams

# A kernel uses nothing of another file, whose change its cache would not notice.
_KEY, _ID, _ARRIVAL, _STREAM = range(4)
assert (_KEY, _ID, _ARRIVAL, _STREAM) == (KEY, ID, ARRIVAL, STREAM)
Int64Array = NDArray[np.int64]

BLOCK = 64
"""Keys probed together: their buckets are read before the first chain is followed, so that the waits overlap."""
START, END = (0, -1), (-1, -1)
"""Before the first tuple of a stream, and behind the last: bucket, and place in it."""
_FIRST_ROOM = 64


class Joined(NamedTuple):
    """What a probe of several streams gives.

    Attributes:
        ids: int64, shape (streams, m); column i is one result. Rows of streams that were not asked for are -1.
        probes: int64, shape (streams,); tuples for which each stream was looked into.
        hits: int64, shape (streams,); those of them whose key was there.
    """

    ids: Int64Array
    probes: Int64Array
    hits: Int64Array


def join_with(
    tables: HashedStreams, stream: int, keys: Int64Array, ids: Int64Array, order: Int64Array, block: int = BLOCK
) -> Joined:
    """All results that tuples of a stream have with tuples of other streams. O(n * streams + m).

    Args:
        tables: what the streams hold.
        stream: whose tuples come.
        keys: int64, shape (n,).
        ids: int64, shape (n,).
        order: int64, shape (s,), the streams to look into, in turn.
        block: keys probed together, up to 64; 1 is one tuple at a time.
    """
    counts = np.zeros((2, tables.heads.shape[1]), np.int64)
    found, count = _join(
        tables.tuples,
        tables.heads,
        (stream, min(block, BLOCK)),
        read_only(keys),
        read_only(ids),
        read_only(order),
        counts,
    )
    if len(order) + 1 < len(found):
        found[np.setdiff1d(np.arange(len(found)), [*order.tolist(), stream])] = -1
    return Joined(found[:, :count], counts[0], counts[1])


def incomplete(tables: HashedStreams, first_bucket: int, until_bucket: int) -> Int64Array:
    """Tuples in some buckets whose key one of the streams has not. O(tuples there * streams).

    Returns:
        int64, shape (2, u), stream and id of each.
    """
    found, count = _incomplete(tables.tuples, tables.heads, first_bucket, until_bucket)
    return found[:, :count]


def held_from(tables: HashedStreams, stream: int, at: tuple[int, int], held: Int64Array) -> tuple[int, tuple[int, int]]:
    """Some tuples of a stream, which stay. O(tuples + buckets).

    Args:
        tables: what the streams hold.
        stream: which.
        at: START, or where the call before ended.
        held: int64, shape (2, m), takes their keys and ids.

    Returns:
        How many, and where to go on; END when there are no more.
    """
    count, bucket, place = _held_from(tables.tuples, tables.heads, (stream, *at), held)
    return int(count), (int(bucket), int(place))


def join_sorted(columns: Int64Array, streams: int, since: int) -> Int64Array:
    """All results among tuples of several streams, at least one of which came late enough. O(n + m).

    Args:
        columns: int64, shape (4, n): key, id, arrival and stream; ascending by key (in any order of keys), stream and
            arrival.
        streams: how many there are.
        since: results of tuples that all arrived before are left out: they are known.

    Returns:
        int64, shape (streams, m).
    """
    found, count = _join_sorted(np.ascontiguousarray(columns), streams, since)
    return found[:, :count]


# The two below are called, not compiled into their callers: each does much for a call.
@kernel
def _with_room(found: Int64Array, count: int, total: int) -> Int64Array:
    """A matrix with room for so many results more."""
    if count + total <= found.shape[1]:
        return found
    wider = np.empty((found.shape[0], max(2 * found.shape[1], count + total)), np.int64)
    for row in range(found.shape[0]):
        for column in range(count):
            wider[row, column] = found[row, column]
    return wider


@kernel
def _cross(found: Int64Array, stream: int, results: Any, listed: Int64Array, part: Any, inner: int) -> None:
    """One stream's ids in a cross product: each so often as the streams after it have combinations, again and again."""
    at, until = results
    first, last = part
    while at < until:
        for position in range(first, last):
            for column in range(at, at + inner):
                found[stream, column] = listed[position]
            at += inner


@kernel_part
def _first_with(tuples: NDArray[np.void], key: Any, place: Any) -> Any:
    """The first place with this key, from one on; 0 if there is none."""
    while place and tuples[place].key != key:
        place = np.int64(tuples[place].next)
    return place


@kernel_part
def _survivors(tuples: NDArray[np.void], heads: Any, asked: Any, level: Any, work: Any, places: Int64Array) -> Any:
    """Those of a block's rows whose key a stream has, with the first place of each; how many."""
    keys, start, other = asked
    buckets, rows, walking, walked, active = work
    for i in range(active):
        walking[i], walked[i] = rows[i], heads[buckets[rows[i]], other]
    # The chains are followed side by side, a tuple of each in turn.
    going, found = active, 0
    while going:
        going_on = 0
        for i in range(going):
            row, place = walking[i], walked[i]
            if place:
                if tuples[place].key == keys[start + row]:
                    places[level, row], rows[found] = place, row
                    found += 1
                else:
                    walking[going_on], walked[going_on] = row, tuples[place].next
                    going_on += 1
        going = going_on
    return found


@kernel
def _emit(tuples: NDArray[np.void], key: int, row: int, order: Int64Array, places: Int64Array, room: Any) -> Any:
    """List the ids of a key in each stream, then write their cross product. The stream itself is the caller's."""
    found, listed, ends, count = room
    total, at = 1, 0
    for level in range(len(order)):
        ends[level] = at
        place = places[level, row]
        while place:
            if at == len(listed):
                longer = np.empty(2 * at, np.int64)
                for i in range(at):
                    longer[i] = listed[i]
                listed = longer
            listed[at] = tuples[place].id
            at += 1
            place = _first_with(tuples, key, np.int64(tuples[place].next))
        total *= at - ends[level]
    ends[len(order)] = at
    found = _with_room(found, count, total)
    inner = total
    for level in range(len(order)):
        inner //= ends[level + 1] - ends[level]
        _cross(found, order[level], (count, count + total), listed, (ends[level], ends[level + 1]), inner)
    return found, listed, total


@kernel
def _join(
    tuples: NDArray[np.void],
    heads: NDArray[np.int32],
    stream_and_block: Any,
    keys: Int64Array,
    ids: Int64Array,
    order: Int64Array,
    counts: Int64Array,
) -> Any:
    stream, block = stream_and_block
    mask = np.uint64(len(heads) - 1)
    found = np.empty((heads.shape[1], _FIRST_ROOM), np.int64)
    buckets, rows = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    walking, walked = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    places = np.empty((len(order), BLOCK), np.int64)
    listed = np.empty(_FIRST_ROOM, np.int64)
    ends = np.empty(len(order) + 1, np.int64)
    count = 0
    for start in range(0, len(keys), block):
        active = min(block, len(keys) - start)
        for i in range(active):
            rows[i], buckets[i] = i, np.int64(mix(keys[start + i]) & mask)
        for level in range(len(order)):
            other = order[level]
            counts[0, other] += active
            work = (buckets, rows, walking, walked, active)
            active = _survivors(tuples, heads, (keys, start, other), level, work, places)
            counts[1, other] += active
            if not active:
                break
        for i in range(active):
            row = rows[i]
            room = (found, listed, ends, count)
            found, listed, total = _emit(tuples, keys[start + row], row, order, places, room)
            for column in range(count, count + total):
                found[stream, column] = ids[start + row]
            count += total
    return found, count


@kernel
def _incomplete(tuples: NDArray[np.void], heads: NDArray[np.int32], first_bucket: int, until_bucket: int) -> Any:
    found = np.empty((2, _FIRST_ROOM), np.int64)
    count = 0
    streams = heads.shape[1]
    for bucket in range(first_bucket, until_bucket):
        for stream in range(streams):
            place = np.int64(heads[bucket, stream])
            while place:
                for other in range(streams):
                    if not _first_with(tuples, tuples[place].key, np.int64(heads[bucket, other])):
                        found = _with_room(found, count, 1)
                        found[0, count], found[1, count] = stream, tuples[place].id
                        count += 1
                        break
                place = np.int64(tuples[place].next)
    return found, count


@kernel
def _held_from(tuples: NDArray[np.void], heads: NDArray[np.int32], asked: Any, held: Int64Array) -> Any:
    stream, bucket, place = asked
    count = 0
    while bucket < len(heads):
        if place < 0:
            place = np.int64(heads[bucket, stream])
        while place:
            if count == held.shape[1]:
                return count, bucket, place
            held[0, count], held[1, count] = tuples[place].key, tuples[place].id
            count += 1
            place = np.int64(tuples[place].next)
        place = np.int64(-1)
        bucket += 1
    return count, -1, -1


@kernel
def _join_sorted(columns: Int64Array, streams: int, since: int) -> Any:
    found = np.empty((streams, _FIRST_ROOM), np.int64)
    # Of each stream: where its tuples of a key begin, where those that came late enough do, and where they end.
    begins, lates, ends = np.empty(streams, np.int64), np.empty(streams, np.int64), np.empty(streams, np.int64)
    tuples = columns.shape[1]
    count = at = 0
    while at < tuples:
        key = columns[_KEY, at]
        present = 0
        for stream in range(streams):
            begins[stream] = at
            while at < tuples and columns[_KEY, at] == key and columns[_STREAM, at] == stream:
                if columns[_ARRIVAL, at] >= since:
                    break
                at += 1
            lates[stream] = at
            while at < tuples and columns[_KEY, at] == key and columns[_STREAM, at] == stream:
                at += 1
            ends[stream] = at
            present += at > begins[stream]
        if present < streams:
            continue
        # A result belongs to the first of its streams whose tuple came late enough: so each comes once.
        for chosen in range(streams):
            total = 1
            for stream in range(streams):
                first = lates[stream] if stream == chosen else begins[stream]
                last = lates[stream] if stream < chosen else ends[stream]
                total *= last - first
            found = _with_room(found, count, total)
            inner = total
            for stream in range(streams):
                if total:
                    first = lates[stream] if stream == chosen else begins[stream]
                    last = lates[stream] if stream < chosen else ends[stream]
                    inner //= last - first
                    _cross(found, stream, (count, count + total), columns[_ID], (first, last), inner)
            count += total
    return found, count
