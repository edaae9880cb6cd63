"""Tuples of several streams in hash chains over one pool of memory: what the hash joins of streams keep in memory.

    mix(key) -> bucket:  stream 0 -> newest -> older -> ...      a chain for each stream; their heads lie side by side,
                         stream 1 -> newest -> ...               so that a key costs one wait for all streams
                         stream 2

The streams share the pool: whichever brings more tuples takes more of it. Buckets are parted into runs of equal
length, the partitions that XJoin flushes as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.hashing import mix
from spark_jobs.columns.jit import kernel, kernel_part, read_only

Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
# Tuples, heads of the chains, counts by stream and partition, counters.
_State = tuple[NDArray[np.void], Int32Array, Int64Array, Int64Array]

# 32 bytes: two in a line of the processor's cache, so that a chain costs one wait for each tuple.
TUPLE = np.dtype(
    [("key", np.int64), ("id", np.int64), ("arrival", np.int64), ("next", np.int32), ("matched", np.int32)]
)
_LINE_BYTES = 64
KEY, ID, ARRIVAL, MATCHED = range(4)
"""Rows of the int64 matrices in which tuples leave: shape (4, n)."""
STREAM = MATCHED
"""What stands in the last row where tuples of all streams leave together."""
COLUMNS = 4
MOST_TUPLES = 2**31 - 2

# Places that were ever used, the first free one of these, and the buckets of a partition, as a power of two.
_USED, _FREE, _SHIFT = 0, 1, 2
_COUNTERS = 3
_LEAST_BUCKETS = 1 << 14
_GROWTH = 2
# More are used all at once: no cache holds them, and to move many tuples once more would take long.
_CACHED_BUCKETS = 1 << 18
_HALF_BITS = np.uint64(32)
# Keys probed together: all their chains' heads are read before the first is followed, so that the waits for memory
# overlap.
_BLOCK = 64
_FIRST_ROOM = 64


class Found(NamedTuple):
    """Tuples that a probe has found; int64, shape (m,) each.

    Attributes:
        rows: which of the keys that were asked for each has, in no order.
        places: where it stands.
        ids: its id.
    """

    rows: Int64Array
    places: Int64Array
    ids: Int64Array


class HashedStreams:
    """Hash multimaps of several streams.

    Args:
        capacity: how many tuples all streams have room for together.
        streams: how many streams.
        partitions: a power of two; into how many the buckets are parted.
        growing: whether few tuples use few buckets, which fit the processor's cache; the bucket of a key then changes
            as more come.

    Attributes:
        tuples: shape (capacity + 1,), of dtype TUPLE; place 0 holds no tuple.
        heads: int32, shape (buckets, streams), the newest tuple of each chain, 0 where there is none; of a growing
            table, only those in use are set.
        counts: int64, shape (streams, partitions); tuples here.
    """

    def __init__(self, capacity: int, streams: int, partitions: int = 1, *, growing: bool = False) -> None:
        if not 0 < capacity <= MOST_TUPLES:
            raise ValueError(f"from 1 to {MOST_TUPLES} tuples can be held, not {capacity}")
        if partitions < 1 or partitions & (partitions - 1):
            raise ValueError(f"the number of partitions is a power of two, not {partitions}")
        self.capacity = capacity
        # Not zeroed: this way numpy asks for large pages, which spare a wait at every tuple of a large table, and they
        # become resident only where tuples come, so that a large budget costs nothing by itself.
        self.tuples: NDArray[np.void] = _aligned(capacity + 1)
        self.tuples[:1] = 0
        self.heads: Int32Array = np.empty((_bucket_count(capacity, partitions), streams), np.int32)
        self.counts: Int64Array = np.zeros((streams, partitions), np.int64)
        self._counters: Int64Array = np.zeros(_COUNTERS, np.int64)
        used = min(len(self.heads), max(partitions, _LEAST_BUCKETS)) if growing else len(self.heads)
        self._counters[_SHIFT] = (used // partitions).bit_length() - 1
        self.heads[:used] = 0
        self._state: _State = (self.tuples, self.heads, self.counts, self._counters)

    @staticmethod
    def bytes_for(capacity: int, streams: int, partitions: int = 1) -> int:
        """Memory of this capacity, in bytes."""
        heads = _bucket_count(capacity, partitions) * streams * 4
        return (capacity + 1) * TUPLE.itemsize + _LINE_BYTES + heads + (streams * partitions + _COUNTERS) * 8

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def room(self) -> int:
        """How many tuples more there is room for."""
        return self.capacity - len(self)

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self.counts.shape[1]

    def partition_of(self, keys: Int64Array) -> Int64Array:
        """The partition of each key, int64, shape (n,). O(n)."""
        return _partitions_of(self._state, read_only(keys))

    def bucket_of(self, keys: Int64Array) -> Int64Array:
        """The bucket of each key, int64, shape (n,). O(n)."""
        return _buckets_of(self._state, read_only(keys))

    def insert(self, stream: int, keys: Int64Array, ids: Int64Array, arrivals: Int64Array) -> Int64Array:
        """Add tuples of a stream, not matched yet; there must be room.

        Args:
            stream: whose they are.
            keys: int64, shape (n,).
            ids: int64, shape (n,).
            arrivals: int64, shape (n,), numbers that grow from tuple to tuple.

        Returns:
            int64, shape (n,), their places. O(n).
        """
        self._expect_room(len(keys))
        places = np.empty(len(keys), np.int64)
        _insert(self._state, stream, read_only(keys), read_only(ids), read_only(arrivals), places)
        return places

    def probe(self, stream: int, keys: Int64Array, *, mark: bool = False) -> Found:
        """All tuples of a stream with any of these keys. O(n + m).

        Args:
            stream: in which to look.
            keys: int64, shape (n,).
            mark: whether what is found is in a result by that.
        """
        return Found(*_probe(self._state, stream, read_only(keys), mark))

    def meet(
        self,
        stream: int,
        keys: Int64Array,
        ids: Int64Array,
        arrivals: Int64Array,
        *,
        probing: NDArray[np.bool_] | None = None,
        storing: NDArray[np.bool_] | None = None,
    ) -> Found:
        """Probe the other of two streams with tuples of one, and store these; partners are matched by that.

        Quicker than `probe` and `insert`: both streams' chains begin side by side. There must be room. O(n + m).

        Args:
            stream: whose they are, 0 or 1.
            keys: int64, shape (n,).
            ids: int64, shape (n,).
            arrivals: int64, shape (n,), numbers that grow from tuple to tuple.
            probing: bool, shape (n,), which of them probe; all if left out.
            storing: bool, shape (n,), which of them are stored; all if left out.
        """
        self._expect_room(len(keys))
        probing = np.ones(len(keys), bool) if probing is None else probing
        storing = np.ones(len(keys), bool) if storing is None else storing
        columns = read_only(keys), read_only(ids), read_only(arrivals)
        return Found(*_meet(self._state, stream, *columns, read_only(probing), read_only(storing)))

    def contains(self, stream: int, keys: Int64Array) -> NDArray[np.bool_]:
        """Of which of these keys a stream has a tuple; bool, shape (n,). O(n)."""
        return _contains(self._state, stream, read_only(keys))

    def count(self, stream: int, keys: Int64Array) -> Int64Array:
        """How many tuples of a stream have each of these keys; int64, shape (n,). O(n + tuples with them)."""
        return _count(self._state, stream, read_only(keys))

    def count_within(self, stream: int, firsts: Int64Array, lasts: Int64Array) -> Int64Array:
        """How many tuples of a stream have a key of each range, both ends included; int64, shape (n,).

        O(keys of the ranges + tuples with them).
        """
        return _count_within(self._state, stream, read_only(firsts), read_only(lasts))

    def mark_matched(self, places: Int64Array) -> None:
        """Remember that these tuples are in a result. O(n)."""
        self.tuples["matched"][places] = 1

    def take_partition(self, stream: int, partition: int, most: int | None = None) -> Int64Array:
        """Take tuples of a stream out of a partition: all, or as many as at most; bucket by bucket. O(buckets + n).

        Returns:
            int64, shape (4, n).
        """
        count = int(self.counts[stream, partition])
        taken = np.empty((COLUMNS, count if most is None else min(count, most)), np.int64)
        _take_partition(self._state, stream, partition, taken)
        if not len(self):
            # Begin anew: who fills it next finds its places side by side.
            self._counters[[_USED, _FREE]] = 0
        return taken

    def forget_keys(self, stream: int, keys: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Take all tuples of a stream with any of these keys out. O(keys + n).

        Returns:
            How many of each key, int64, shape (keys,); and the ids of those in no result, int64, shape (u,).
        """
        counts, unmatched, first = np.zeros(len(keys), np.int64), [np.empty(0, np.int64)], 0
        room = max(len(keys), _FIRST_ROOM)
        while first < len(keys):
            ids = np.empty(room, np.int64)
            first, count = _forget_keys(self._state, stream, read_only(keys), first, counts, ids)
            unmatched.append(ids[:count])
            room *= 2
        return counts, np.concatenate(unmatched)

    def pieces(self, stream: int, partition: int, most: int) -> Iterator[Int64Array]:
        """The keys of a stream in a partition, a tuple each, some at a time; int64, shape (4, n). O(buckets + tuples).

        Of several tuples with one key the newest stands there, and `count` tells how many they are: so a key of many
        takes no more memory than another.

        Args:
            stream: whose.
            partition: which.
            most: how many keys at once; more only where a single bucket has more. Their tuples may be taken out.
        """
        length = 1 << int(self._counters[_SHIFT])
        bucket, until = partition * length, (partition + 1) * length
        room = most
        while bucket < until:
            held = np.empty((COLUMNS, room), np.int64)
            bucket, count = _copy_buckets(self._state, stream, bucket, until, held)
            if count:
                yield held[:, :count]
            room = most if count or bucket == until else 2 * room

    def take_buckets(self, buckets: Int64Array, first: int, taken: Int64Array) -> tuple[int, int]:
        """Take tuples of all streams out of buckets, one after the other. O(n + buckets * streams).

        Args:
            buckets: int64, shape (b,).
            first: position of the bucket to begin with.
            taken: int64, shape (4, m), for key, id, arrival and stream of those that are taken.

        Returns:
            How many are taken, and the position of the first bucket that is not empty yet: b if all are.
        """
        count, position = _take_buckets(self._state, buckets, first, taken)
        return int(count), int(position)

    def memory_used(self) -> int:
        """Bytes of its arrays."""
        return sum(array.nbytes for array in self._state) + _LINE_BYTES

    @property
    def buckets(self) -> int:
        """How many buckets are in use."""
        return self.partitions << int(self._counters[_SHIFT])

    def _expect_room(self, count: int) -> None:
        """Expect room for so many tuples more, and spread all over more buckets where they would be too many."""
        held = len(self)
        if held + count > self.capacity:
            raise ValueError(f"{count} tuples inserted, but there is room for {self.capacity - held}")
        most = len(self.heads)
        before = self.buckets
        if before < most and held + count > before:
            wanted = (held + count) << _GROWTH
            shift = (min(most, wanted if wanted <= _CACHED_BUCKETS else most) // self.partitions).bit_length() - 1
            self.heads[before : self.partitions << shift] = 0
            _grow(self._state, shift)

    def check(self) -> None:
        """Assert that every place up to the highest is in one chain, the right one, or free. O(capacity)."""
        used = int(self._counters[_USED])
        assert 0 <= len(self) <= used <= self.capacity
        seen = _walk(self.tuples, int(self._counters[_FREE]))
        for stream in range(self.heads.shape[1]):
            counted = np.zeros(self.partitions, np.int64)
            for bucket in np.flatnonzero(self.heads[: self.buckets, stream]):
                chain = _walk(self.tuples, int(self.heads[bucket, stream]))
                keys = np.ascontiguousarray(self.tuples["key"][chain])
                assert (_buckets_of(self._state, keys) == bucket).all()
                counted += np.bincount(self.partition_of(keys), minlength=self.partitions)
                seen += chain
            assert counted.tolist() == self.counts[stream].tolist()
        assert sorted(seen) == list(range(1, used + 1))


def _walk(tuples: NDArray[np.void], place: int) -> list[int]:
    """Places from one on, until there is none; fails in a cycle that it would never leave."""
    walked = []
    while place:
        walked.append(place)
        place = int(tuples["next"][place])
        assert len(walked) < len(tuples)
    return walked


def _aligned(count: int) -> NDArray[np.void]:
    """Tuples that begin with a line of the processor's cache."""
    bytes_ = np.empty(count * TUPLE.itemsize + _LINE_BYTES, np.uint8)
    first = -bytes_.ctypes.data % _LINE_BYTES
    return bytes_[first : first + count * TUPLE.itemsize].view(TUPLE)


def _bucket_count(capacity: int, partitions: int) -> int:
    """A power of two up to the capacity, and a bucket for each partition at least."""
    return max(partitions, 1 << (capacity.bit_length() - 1))


@kernel_part
def _bucket(state: _State, key: Any) -> Any:
    """The upper half of a hash code gives the partition, the lower one the bucket in it."""
    code, shift = mix(key), np.uint64(state[3][_SHIFT])
    partition = code >> _HALF_BITS & np.uint64(state[2].shape[1] - 1)
    return np.int64(partition << shift | code & ((np.uint64(1) << shift) - np.uint64(1)))


@kernel
def _buckets_of(state: _State, keys: Int64Array) -> Int64Array:
    buckets = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        buckets[i] = _bucket(state, keys[i])
    return buckets


@kernel
def _partitions_of(state: _State, keys: Int64Array) -> Int64Array:
    partitions = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        partitions[i] = _bucket(state, keys[i]) >> state[3][_SHIFT]
    return partitions


@kernel
def _grow(state: _State, shift: int) -> None:
    """Give each partition as many buckets as the shift says, and move the tuples there, from the last to the first."""
    tuples, heads, counts, counters = state
    before = counters[_SHIFT]
    counters[_SHIFT] = shift
    for partition in range(counts.shape[1] - 1, -1, -1):
        # What a partition gets is empty: it lies beyond all that is still to be moved, or is where that has been.
        for bucket in range(partition << before, (partition + 1) << before):
            for stream in range(heads.shape[1]):
                place = np.int64(heads[bucket, stream])
                heads[bucket, stream] = 0
                while place:
                    following = np.int64(tuples[place].next)
                    at = _bucket(state, tuples[place].key)
                    tuples[place].next = heads[at, stream]
                    heads[at, stream] = place
                    place = following


@kernel_part
def _put(state: _State, stream: Any, bucket: Any, key: Any, id_: Any, arrival: Any) -> Any:
    """Insert a tuple as the newest of its bucket; its place."""
    tuples, heads, counts, counters = state
    place = counters[_FREE]
    if place:
        counters[_FREE] = tuples[place].next
    else:
        counters[_USED] += 1
        place = counters[_USED]
    tuples[place].key, tuples[place].id, tuples[place].arrival = key, id_, arrival
    tuples[place].next = heads[bucket, stream]
    tuples[place].matched = 0
    heads[bucket, stream] = place
    counts[stream, bucket >> counters[_SHIFT]] += 1
    return place


@kernel_part
def _wider(found: Int64Array, count: Any) -> Any:
    wider = np.empty((3, 2 * found.shape[1]), np.int64)
    wider[:, :count] = found[:, :count]
    return wider


@kernel
def _insert(
    state: _State, stream: int, keys: Int64Array, ids: Int64Array, arrivals: Int64Array, places: Int64Array
) -> None:
    _, heads, _, _ = state
    buckets = np.empty(_BLOCK, np.int64)
    firsts = np.empty(_BLOCK, np.int32)
    for start in range(0, len(keys), _BLOCK):
        count = min(_BLOCK, len(keys) - start)
        for i in range(count):
            buckets[i] = _bucket(state, keys[start + i])
        for i in range(count):
            firsts[i] = heads[buckets[i], stream]
        for i in range(count):
            row = start + i
            places[row] = _put(state, stream, buckets[i], keys[row], ids[row], arrivals[row])


@kernel
def _probe(state: _State, stream: int, keys: Int64Array, mark: bool) -> Any:
    tuples, heads, _, _ = state
    found = np.empty((3, max(len(keys), _BLOCK)), np.int64)
    # The chains of a block are followed side by side, a tuple of each in turn: row and place of those that go on.
    rows, places = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    count = 0
    for start in range(0, len(keys), _BLOCK):
        active = min(_BLOCK, len(keys) - start)
        for i in range(active):
            rows[i], places[i] = start + i, _bucket(state, keys[start + i])
        for i in range(active):
            places[i] = heads[places[i], stream]
        while active:
            if count + active > found.shape[1]:
                found = _wider(found, count)
            going_on = 0
            for i in range(active):
                row, place = rows[i], places[i]
                if place:
                    if tuples[place].key == keys[row]:
                        found[0, count], found[1, count], found[2, count] = row, place, tuples[place].id
                        count += 1
                        if mark:
                            tuples[place].matched = 1
                    rows[going_on], places[going_on] = row, tuples[place].next
                    going_on += 1
            active = going_on
    return found[0, :count], found[1, :count], found[2, :count]


@kernel
def _meet(
    state: _State,
    stream: int,
    keys: Int64Array,
    ids: Int64Array,
    arrivals: Int64Array,
    probing: NDArray[np.bool_],
    storing: NDArray[np.bool_],
) -> Any:
    tuples, heads, _, _ = state
    found = np.empty((3, max(len(keys), _BLOCK)), np.int64)
    buckets, rows, places = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    own = np.empty(_BLOCK, np.int64)  # Places of the block's own tuples; 0, where nothing stands, for one not stored.
    count = 0
    for start in range(0, len(keys), _BLOCK):
        width = min(_BLOCK, len(keys) - start)
        for i in range(width):
            buckets[i] = _bucket(state, keys[start + i])
        active = 0
        for i in range(width):
            rows[active], places[active] = start + i, heads[buckets[i], 1 - stream]
            active += probing[start + i]
        for i in range(width):
            row = start + i
            own[i] = 0
            if storing[row]:
                own[i] = _put(state, stream, buckets[i], keys[row], ids[row], arrivals[row])
        while active:
            if count + active > found.shape[1]:
                found = _wider(found, count)
            going_on = 0
            for i in range(active):
                row, place = rows[i], places[i]
                if place:
                    if tuples[place].key == keys[row]:
                        found[0, count], found[1, count], found[2, count] = row, place, tuples[place].id
                        count += 1
                        tuples[place].matched = 1
                        tuples[own[row - start]].matched = 1
                    rows[going_on], places[going_on] = row, tuples[place].next
                    going_on += 1
            active = going_on
    return found[0, :count], found[1, :count], found[2, :count]


@kernel
def _contains(state: _State, stream: int, keys: Int64Array) -> NDArray[np.bool_]:
    tuples, heads, _, _ = state
    there = np.empty(len(keys), np.bool_)
    places = np.empty(_BLOCK, np.int32)
    for start in range(0, len(keys), _BLOCK):
        width = min(_BLOCK, len(keys) - start)
        for i in range(width):
            places[i] = heads[_bucket(state, keys[start + i]), stream]
        for i in range(width):
            place = places[i]
            while place and tuples[place].key != keys[start + i]:
                place = tuples[place].next
            there[start + i] = place != 0
    return there


@kernel
def _count(state: _State, stream: int, keys: Int64Array) -> Int64Array:
    tuples, heads, _, _ = state
    counts = np.zeros(len(keys), np.int64)
    places = np.empty(_BLOCK, np.int32)
    for start in range(0, len(keys), _BLOCK):
        width = min(_BLOCK, len(keys) - start)
        for i in range(width):
            places[i] = heads[_bucket(state, keys[start + i]), stream]
        for i in range(width):
            place = places[i]
            while place:
                counts[start + i] += tuples[place].key == keys[start + i]
                place = tuples[place].next
    return counts


@kernel
def _count_within(state: _State, stream: int, firsts: Int64Array, lasts: Int64Array) -> Int64Array:
    tuples, heads, _, _ = state
    counts = np.zeros(len(firsts), np.int64)
    places = np.empty(_BLOCK, np.int32)
    for row in range(len(firsts)):
        key, left = firsts[row], lasts[row] - firsts[row] + 1
        while left:
            width = min(_BLOCK, left)
            for i in range(width):
                places[i] = heads[_bucket(state, key + i), stream]
            for i in range(width):
                place = places[i]
                while place:
                    counts[row] += tuples[place].key == key + i
                    place = tuples[place].next
            key += width
            left -= width
    return counts


@kernel_part
def _leave(state: _State, place: Any, taken: Int64Array, row: Any) -> None:
    """Copy a tuple out, and free its place; its chain is the caller's business."""
    tuples, _, _, counters = state
    taken[KEY, row], taken[ID, row] = tuples[place].key, tuples[place].id
    taken[ARRIVAL, row], taken[MATCHED, row] = tuples[place].arrival, tuples[place].matched
    tuples[place].next = counters[_FREE]
    counters[_FREE] = place


@kernel
def _take_partition(state: _State, stream: int, partition: int, taken: Int64Array) -> None:
    tuples, heads, counts, counters = state
    row = 0
    for bucket in range(partition << counters[_SHIFT], (partition + 1) << counters[_SHIFT]):
        if row == taken.shape[1]:
            break
        place = np.int64(heads[bucket, stream])
        while place and row < taken.shape[1]:
            following = np.int64(tuples[place].next)
            _leave(state, place, taken, row)
            row += 1
            place = following
        heads[bucket, stream] = place
    counts[stream, partition] -= row


@kernel
def _forget_keys(
    state: _State, stream: int, keys: Int64Array, first: int, counts: Int64Array, unmatched: Int64Array
) -> tuple[int, int]:
    """Forget from one key on, while there is room for the unmatched: where to go on, and how many these are."""
    tuples, heads, partitions, counters = state
    buckets, places = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int32)
    lonely = 0
    for start in range(first, len(keys), _BLOCK):
        width = min(_BLOCK, len(keys) - start)
        for i in range(width):
            buckets[i] = _bucket(state, keys[start + i])
        for i in range(width):
            places[i] = heads[buckets[i], stream]
        # Read here so that these cache misses overlap. It is read again below: an earlier key of the block may have
        # changed the chain.
        for i in range(width):
            places[i] = tuples[places[i]].next
        for i in range(width):
            bucket, key = buckets[i], keys[start + i]
            previous, place = np.int64(0), np.int64(heads[bucket, stream])
            gone = 0
            while place and lonely < len(unmatched):
                following = np.int64(tuples[place].next)
                if tuples[place].key == key:
                    unmatched[lonely] = tuples[place].id
                    lonely += not tuples[place].matched
                    tuples[place].next = counters[_FREE]
                    counters[_FREE] = place
                    gone += 1
                    if previous:
                        tuples[previous].next = following
                    else:
                        heads[bucket, stream] = following
                else:
                    previous = place
                place = following
            counts[start + i] += gone
            partitions[stream, bucket >> counters[_SHIFT]] -= gone
            if place:
                return start + i, lonely
    return len(keys), lonely


@kernel
def _take_buckets(state: _State, buckets: Int64Array, first: int, taken: Int64Array) -> tuple[int, int]:
    tuples, heads, counts, counters = state
    row, position = 0, first
    while position < len(buckets):
        bucket = buckets[position]
        for stream in range(heads.shape[1]):
            place = np.int64(heads[bucket, stream])
            while place and row < taken.shape[1]:
                following = np.int64(tuples[place].next)
                _leave(state, place, taken, row)
                taken[STREAM, row] = stream
                counts[stream, bucket >> counters[_SHIFT]] -= 1
                row += 1
                place = following
            heads[bucket, stream] = place
            if place:
                return row, position
        position += 1
    return row, position


@kernel
def _copy_buckets(state: _State, stream: int, bucket: int, until: int, held: Int64Array) -> tuple[int, int]:
    """Copy the keys of whole buckets from one on, while there is room: the bucket after them, and how many they are."""
    tuples, heads, _, _ = state
    copied = 0
    while bucket < until:
        row, place = copied, np.int64(heads[bucket, stream])
        while place:
            same = copied
            while same < row and held[KEY, same] != tuples[place].key:
                same += 1
            if same == row:
                if row == held.shape[1]:
                    return bucket, copied
                held[KEY, row], held[ID, row] = tuples[place].key, tuples[place].id
                held[ARRIVAL, row], held[MATCHED, row] = tuples[place].arrival, tuples[place].matched
                row += 1
            place = np.int64(tuples[place].next)
        copied = row
        bucket += 1
    return bucket, copied
