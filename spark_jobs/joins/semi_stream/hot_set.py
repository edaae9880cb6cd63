"""The keys of the front stage's cache, frozen: what stream tuples are probed against."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.hashing import mix
from spark_jobs.columns.jit import kernel, kernel_part, read_only

Int64Array = NDArray[np.int64]
Int32Array = NDArray[np.int32]
# Columns of tuples, all of one length.
Tuples = tuple[Int64Array, ...]

MOST_SLOTS = 2**31 - 2
_KEY_BYTES = 8
_START_BYTES = 4
# With two keys in a bucket most are found among the first four from its start on, which are compared whatever they
# are: to ask where the bucket ends costs more. Measured on 10,000 to 2 million keys, two to four a bucket.
_KEYS_PER_BUCKET = 2
_WINDOW = 4
# Keys probed together: their buckets, and then their first keys, are all requested before the first is looked at, so
# that the waits for memory overlap.
_BLOCK = 64
_HALF_BITS = np.uint64(32)


class HotSet:
    """One version of the cache H_R (003 §3.1): keys of the frequent tuples of R, each with its slot.

    Read-only, and pickled as its arrays, for sending to workers. The tuples themselves stay with the caller, in the
    order of the slots: that of the buckets that the keys' hash codes fall into. So a key takes ten bytes, two of them
    for the place where its bucket begins, and no slot is empty.

    Attributes:
        version: counts up with every change.
        keys: int64, shape (n,), distinct; keys[s] is the key of slot s.
    """

    def __init__(self, version: int, keys: Int64Array, starts: Int32Array) -> None:
        self.version = version
        self._padded = keys
        self._starts = starts

    @classmethod
    def arranged(cls, version: int, keys: Int64Array) -> tuple[HotSet, Int64Array]:
        """Make a version of keys in any order.

        Args:
            version: its number.
            keys: int64, shape (n,), distinct.

        Returns:
            The hot set; and int64, shape (n,): where the key of each slot stands among `keys`. O(n): 10 to 90 ns each.
        """
        count = len(keys)
        starts = np.zeros(_bucket_count(count) + 1, np.int32)
        padded, order = np.empty(count + _WINDOW, np.int64), np.empty(count, np.int64)
        _arrange(read_only(np.ascontiguousarray(keys, np.int64)), starts, padded, order)
        # A key that equals the padding is found where it stands, which is before.
        padded[count:] = padded[count - 1] if count else 0
        return cls(version, padded, starts), order

    @staticmethod
    def bytes_for(slot_count: int) -> int:
        """Memory of a hot set of this size, in bytes."""
        return (slot_count + _WINDOW) * _KEY_BYTES + (_bucket_count(slot_count) + 1) * _START_BYTES

    @property
    def slot_count(self) -> int:
        """Tuples in the cache."""
        return len(self._padded) - _WINDOW

    @property
    def keys(self) -> Int64Array:
        """Their keys in slot order, int64, shape (slot_count,)."""
        return read_only(self._padded[: self.slot_count])

    def probe(self, codes: Int64Array, valid: NDArray[np.bool_] | None = None) -> Int64Array:
        """Slots of stream tuples' keys; -1 for a key that is not in the cache.

        Args:
            codes: int64, shape (n,), join keys, or hash codes of them.
            valid: bool, shape (n,), False where the code means nothing (a null key); all True if left out.

        Returns:
            int64, shape (n,). O(n): 6 to 40 ns each, by the number of slots.
        """
        slots = np.empty(len(codes), np.int64)
        _probe(*self._arrays, read_only(np.ascontiguousarray(codes, np.int64)), slots)
        if valid is not None:
            slots[~valid] = -1
        return slots

    def part(self, keys: Int64Array, pages: Int64Array, ids: Int64Array) -> tuple[Tuples, Tuples]:
        """Part stream tuples into hits and misses, both in their order.

        Args:
            keys: int64, shape (n,).
            pages: int64, shape (n,).
            ids: int64, shape (n,).

        Returns:
            slots and ids of the hits, int64, shape (h,) each; keys, pages and ids of the misses, shape (n - h,) each.
            O(n), in one call: as array expressions it would take ten.
        """
        found, others = np.empty((2, len(keys)), np.int64), np.empty((3, len(keys)), np.int64)
        count = _part(self._arrays, read_only(keys), read_only(pages), read_only(ids), found, others)
        return tuple(found[:, :count]), tuple(others[:, : len(keys) - count])

    def memory_used(self) -> int:
        """Bytes of its arrays."""
        return self._padded.nbytes + self._starts.nbytes

    def check(self) -> None:
        """Assert that every key is found at its slot. O(slot_count)."""
        assert self._starts[-1] == self.slot_count
        assert np.array_equal(self.probe(self.keys), np.arange(self.slot_count))

    @property
    def _arrays(self) -> tuple[Int32Array, Int64Array]:
        return read_only(self._starts), read_only(self._padded)


def _bucket_count(slot_count: int) -> int:
    return max(1, slot_count // _KEYS_PER_BUCKET)


@kernel_part
def _bucket(key: Any, count: Any) -> Any:
    return np.int64(((mix(key) >> _HALF_BITS) * np.uint64(count)) >> _HALF_BITS)


@kernel
def _arrange(keys: Int64Array, starts: Int32Array, arranged: Int64Array, order: Int64Array) -> None:
    buckets = len(starts) - 1
    for key in keys:
        starts[_bucket(key, buckets) + 1] += 1
    for bucket in range(buckets):
        starts[bucket + 1] += starts[bucket]
    # The start of each bucket serves as its end while it fills, and is put back afterwards.
    for i in range(len(keys)):
        bucket = _bucket(keys[i], buckets)
        slot = starts[bucket]
        starts[bucket] = slot + 1
        arranged[slot], order[slot] = keys[i], i
    for bucket in range(buckets, 0, -1):
        starts[bucket] = starts[bucket - 1]
    starts[0] = 0


@kernel
def _probe(starts: Int32Array, keys: Int64Array, probes: Int64Array, slots: Int64Array) -> None:
    buckets, none = len(starts) - 1, starts[-1] == 0
    places = np.empty(_BLOCK, np.int64)
    begins = np.empty(_BLOCK, np.int64)
    firsts = np.empty(_BLOCK, np.int64)
    for start in range(0, len(probes), _BLOCK):
        count = min(_BLOCK, len(probes) - start)
        for i in range(count):
            places[i] = _bucket(probes[start + i], buckets)
        for i in range(count):
            begins[i] = starts[places[i]]
        for i in range(count):
            firsts[i] = keys[begins[i]]
        for i in range(count):
            key, begin, slot = probes[start + i], begins[i], np.int64(-1)
            if firsts[i] == key:
                slot = begin
            else:
                # The nearest comes last, for the padding repeats a key that stands before it.
                for ahead in range(_WINDOW - 1, 0, -1):
                    if keys[begin + ahead] == key:
                        slot = begin + np.int64(ahead)
                if slot < 0:
                    for further in range(begin + _WINDOW, starts[places[i] + 1]):
                        if keys[further] == key:
                            slot = np.int64(further)
            slots[start + i] = np.int64(-1) if none else slot


@kernel
def _part(
    hot_set: tuple[Int32Array, Int64Array],
    keys: Int64Array,
    pages: Int64Array,
    ids: Int64Array,
    found: Int64Array,
    others: Int64Array,
) -> int:
    slots = np.empty(len(keys), np.int64)
    _probe(hot_set[0], hot_set[1], keys, slots)
    count = 0
    for i in range(len(keys)):
        # Both ways are written and one counts: a branch would be guessed wrong every few tuples.
        other = i - count
        found[0, count], found[1, count] = slots[i], ids[i]
        others[0, other], others[1, other], others[2, other] = keys[i], pages[i], ids[i]
        count += slots[i] >= 0
    return count
