"""Stream tuples in chains by join key: a hash multimap whose chains remember the order of arrival.

    key of R --mix--> bucket -> newest -> oldest -> ... -> older -> newest     a ring for each bucket

A bucket knows its newest tuple, and that one links to the oldest: so a tuple is appended, and the
oldest is taken out, without a walk.

Most keys of R have no stream tuple waiting. For them a bucket has a filter of eight bits, one of which
is set by each key in it: it tells nine of ten such keys, before a tuple is looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.hashing import mix
from spark_jobs.columns.jit import kernel, kernel_part, read_only

Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
Tuples = NDArray[np.void]
_State = tuple[Tuples, Int32Array, NDArray[np.uint8]]

# Packed: 20 bytes. Whoever follows a chain finds key and link in one line of the processor's cache.
TUPLE = np.dtype([("key", np.int64), ("id", np.int64), ("next", np.int32)])
MOST_PLACES = 2**31 - 2
_BUCKET_BYTES = 4 + 1
_ONE, _FILTER_MASK = np.uint64(1), np.uint64(7)
_HALF_BITS = np.uint64(32)
# Keys of R probed together: all their buckets are read before the first chain is followed, so that the
# waits for memory overlap.
_BLOCK = 64
_FIRST_ROOM = 64


class KeyChains:
    """Places 1 to `capacity` for stream tuples, and a bucket for each; who takes which place is the owner's business.

    Args:
        capacity: places.

    Attributes:
        tuples: shape (capacity + 1,), of dtype TUPLE; place 0 holds no tuple.
        newest: int32, shape (capacity,), the newest tuple of each bucket, 0 for an empty one.
    """

    def __init__(self, capacity: int) -> None:
        if not 0 < capacity <= MOST_PLACES:
            raise ValueError(f"from 1 to {MOST_PLACES} stream tuples can be held, not {capacity}")
        # Zeroed memory becomes resident only where tuples come, so a large budget costs nothing by itself.
        self.tuples: Tuples = np.zeros(capacity + 1, TUPLE)
        self.newest: Int32Array = np.zeros(capacity, np.int32)
        # Bits stay set when their tuple leaves, until the bucket is empty.
        self._filters: NDArray[np.uint8] = np.zeros(capacity, np.uint8)
        self._state: _State = (self.tuples, self.newest, self._filters)

    @staticmethod
    def bytes_for(capacity: int) -> int:
        """Memory of this capacity, in bytes: 25 for each place."""
        return (capacity + 1) * TUPLE.itemsize + capacity * _BUCKET_BYTES

    def append(self, places: Int64Array, keys: Int64Array, ids: Int64Array) -> None:
        """Put tuples at free places, the last one newest. O(n).

        Args:
            places: int64, shape (n,).
            keys: int64, shape (n,).
            ids: int64, shape (n,).
        """
        _append(self._state, read_only(places), read_only(keys), read_only(ids))

    def take(self, page_keys: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Take the tuples with any of these keys out of their chains; what stands at their places stays.

        Args:
            page_keys: int64, shape (m,), distinct: the keys on a page of R.

        Returns:
            places and rows, int64, shape (n,) each: tuple places[i] has the key page_keys[rows[i]]. O(m + n),
            8 ns a key on the page where the arrays fit the processor's cache, 22 ns with a million tuples.
        """
        return _take(self._state, read_only(page_keys))

    def drop_oldest(self, places: Int64Array) -> None:
        """Take tuples out, oldest first, before which no older one of their bucket is left. O(n).

        Args:
            places: int64, shape (n,).
        """
        _drop_oldest(self._state, places)

    def sweep(self, first_bucket: int, until_bucket: int) -> Int64Array:
        """Take out the tuples that a sweep has passed before, and mark the others as passed: their ids turn negative.

        Args:
            first_bucket: where the sweep begins.
            until_bucket: before which it ends.

        Returns:
            int64, shape (n,), the places of those taken out. O(buckets + tuples in them).
        """
        return _sweep(self._state, first_bucket, until_bucket)

    def take_some(self, count: int) -> Int64Array:
        """Take out tuples bucket by bucket; their places, int64, shape (n,), n <= count. O(capacity)."""
        places = np.empty(count, np.int64)
        return places[: _take_some(self._state, places)]

    def memory_used(self) -> int:
        """Bytes of its arrays."""
        return sum(array.nbytes for array in self._state)

    def check(self) -> list[list[int]]:
        """Assert that every chain closes and holds tuples of its bucket only; the chains, oldest first. O(capacity)."""
        chains = []
        for bucket in np.flatnonzero(self.newest):
            newest = int(self.newest[bucket])
            chain = [int(self.tuples["next"][newest])]
            while chain[-1] != newest:
                chain.append(int(self.tuples["next"][chain[-1]]))
                assert len(chain) < len(self.tuples)
            assert 0 not in chain
            buckets, bits = _buckets_and_bits(self.tuples["key"][chain], self.newest)
            assert (buckets == bucket).all()
            assert (self._filters[bucket] & bits).all()
            chains.append(chain)
        return chains


@kernel_part
def _bucket(code: Any, buckets: Any) -> Any:
    """The upper half of a hash code, scaled to the number of buckets, which need not be a power of two."""
    return np.int64(((code >> _HALF_BITS) * np.uint64(len(buckets))) >> _HALF_BITS)


@kernel_part
def _filter_bit(code: Any) -> Any:
    return np.uint8(_ONE << (code & _FILTER_MASK))


@kernel
def _buckets_and_bits(keys: Int64Array, newest: Int32Array) -> tuple[Int64Array, NDArray[np.uint8]]:
    buckets, bits = np.empty(len(keys), np.int64), np.empty(len(keys), np.uint8)
    for i in range(len(keys)):
        code = mix(keys[i])
        buckets[i], bits[i] = _bucket(code, newest), _filter_bit(code)
    return buckets, bits


@kernel
def _append(state: _State, places: Int64Array, keys: Int64Array, ids: Int64Array) -> None:
    tuples, newest, filters = state
    for i in range(len(places)):
        place = places[i]
        code = mix(keys[i])
        bucket = _bucket(code, newest)
        before = newest[bucket]
        if before:
            following = tuples[before].next
            tuples[before].next = place
        else:
            following = place
        tuples[place].key, tuples[place].id, tuples[place].next = keys[i], ids[i], following
        newest[bucket] = place
        filters[bucket] |= _filter_bit(code)


@kernel
def _drop_oldest(state: _State, places: Int64Array) -> None:
    tuples, newest, filters = state
    for i in range(len(places)):
        place = places[i]
        bucket = _bucket(mix(tuples[place].key), newest)
        if newest[bucket] == place:
            newest[bucket], filters[bucket] = 0, 0
        else:
            tuples[newest[bucket]].next = tuples[place].next


@kernel_part
def _leave_chain(state: _State, bucket: Any, previous: Any, place: Any) -> None:
    tuples, newest, filters = state
    tuples[previous].next = tuples[place].next
    if place == newest[bucket]:
        newest[bucket] = previous
        if place == previous:
            newest[bucket], filters[bucket] = 0, 0


@kernel
def _take(state: _State, page_keys: Int64Array) -> tuple[Int64Array, Int64Array]:
    tuples, newest, _ = state
    places, rows = np.empty(_FIRST_ROOM, np.int64), np.empty(_FIRST_ROOM, np.int64)
    buckets, block_rows = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    count = 0
    for start in range(0, len(page_keys), _BLOCK):
        for i in range(_passing(state, page_keys, start, buckets, block_rows)):
            bucket, row = buckets[i], block_rows[i]
            last = newest[bucket]
            previous, place = last, np.int32(0)
            while place != last:
                place = tuples[previous].next
                if tuples[place].key != page_keys[row]:
                    previous = place
                    continue
                if count == len(places):
                    places, rows = _doubled(places), _doubled(rows)
                places[count], rows[count] = place, row
                count += 1
                _leave_chain(state, bucket, previous, place)
    return places[:count], rows[:count]


@kernel_part
def _passing(state: _State, page_keys: Int64Array, start: Any, buckets: Int64Array, rows: Int64Array) -> Any:
    """Buckets and rows of those keys of a block that pass their bucket's filter, and how many. Free of branches."""
    newest, filters = state[1], state[2]
    passing = 0
    for row in range(start, min(start + _BLOCK, len(page_keys))):
        code = mix(page_keys[row])
        bucket = _bucket(code, newest)
        buckets[passing], rows[passing] = bucket, row
        passing += (filters[bucket] & _filter_bit(code)) != 0
    return passing


@kernel
def _sweep(state: _State, first_bucket: int, until_bucket: int) -> Int64Array:
    tuples, newest, _ = state
    places = np.empty(_FIRST_ROOM, np.int64)
    count = 0
    for bucket in range(first_bucket, until_bucket):
        last = newest[bucket]
        previous, place = last, np.int32(0)
        while place != last:
            place = tuples[previous].next
            if tuples[place].id >= 0:
                tuples[place].id = ~tuples[place].id
                previous = place
                continue
            if count == len(places):
                places = _doubled(places)
            places[count] = place
            count += 1
            _leave_chain(state, bucket, previous, place)
    return places[:count]


@kernel
def _take_some(state: _State, places: Int64Array) -> int:
    tuples, newest, _ = state
    count = 0
    for bucket in range(len(newest)):
        while newest[bucket] and count < len(places):
            places[count] = tuples[newest[bucket]].next
            _leave_chain(state, bucket, newest[bucket], places[count])
            count += 1
    return count


@kernel
def _doubled(values: Int64Array) -> Int64Array:
    wider = np.empty(2 * len(values), np.int64)
    wider[: len(values)] = values
    return wider
