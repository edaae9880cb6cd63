"""Open-addressing hash table that numbers distinct int64 keys: key -> slot."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.hashing import mix
from spark_jobs.columns.jit import kernel, kernel_part, read_only

Int64Array = NDArray[np.int64]
UInt64Array = NDArray[np.uint64]

MOST_SLOTS = 2**31 - 1
_MOST_LOAD = 0.7
_ENTRY_BYTES = 8
_KEY_BYTES = 8

# Keys probed together: their table entries are all requested before the first is looked at, so that
# the waits for memory overlap.
_BLOCK = 64
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF_BITS = np.uint64(32)
_ONE = np.uint64(1)


def _entry_count(capacity: int) -> int:
    """The power of two that keeps the load at 0.7 or less."""
    return 1 << max(1, int(np.ceil(capacity / _MOST_LOAD)) - 1).bit_length()


class KeyTable:
    """Distinct int64 keys, numbered 0, 1, 2, ... as they come; any int64 is a valid key.

    Linear probing over one array: an entry holds 32 bits of the key's hash code and the slot, so that
    a miss touches one cache line and a hit two. There is no deletion: `clear` and fill again.

    Args:
        capacity: how many distinct keys it takes.

    Attributes:
        keys: int64, shape (capacity,); keys[s] is the key of slot s; only the first `size` are filled.
        size: slots filled.
    """

    def __init__(self, capacity: int) -> None:
        if not 0 < capacity <= MOST_SLOTS:
            raise ValueError(f"a key table takes from 1 to {MOST_SLOTS} keys, not {capacity}")
        self.keys: Int64Array = np.empty(capacity, np.int64)
        self.size = 0
        # uint64, a power of two long: upper half = upper half of the hash code, lower half = slot + 1; 0 = empty.
        self._entries: UInt64Array = np.zeros(_entry_count(capacity), np.uint64)

    @staticmethod
    def bytes_for(capacity: int) -> int:
        """Memory of a table of this capacity, in bytes."""
        return capacity * _KEY_BYTES + _entry_count(capacity) * _ENTRY_BYTES

    @property
    def capacity(self) -> int:
        """How many distinct keys it takes."""
        return len(self.keys)

    def insert(self, keys: Int64Array, most: int | None = None) -> Int64Array:
        """Find the slots of keys, giving the next free slot to each that is new.

        It stops before the first new key for which there is no slot left.

        Args:
            keys: int64, shape (n,).
            most: slots to fill at most, those filled before included; all if left out.

        Returns:
            int64, shape (m,), m <= n: the slots of the first m keys. O(n).
        """
        slots = np.empty(len(keys), np.int64)
        limit = self.capacity if most is None else min(most, self.capacity)
        taken, self.size = _insert(self._entries, self.keys[:limit], self.size, read_only(keys), slots)
        return slots[:taken]

    def probe(self, keys: Int64Array) -> Int64Array:
        """Slots of keys; -1 for a key that is not in the table.

        Args:
            keys: int64, shape (n,).

        Returns:
            int64, shape (n,). O(n): 4 to 25 ns a key, by the table's size.
        """
        slots = np.empty(len(keys), np.int64)
        _probe(read_only(self._entries), read_only(self.keys), read_only(keys), slots)
        return slots

    def clear(self) -> None:
        """Forget all keys. O(capacity)."""
        self._entries.fill(0)
        self.size = 0

    def memory_used(self) -> int:
        """Bytes of its arrays."""
        return self.keys.nbytes + self._entries.nbytes

    def check(self) -> None:
        """Assert that every key is found at its slot, and that there is no entry more. O(capacity)."""
        assert 0 <= self.size <= self.capacity
        assert np.count_nonzero(self._entries) == self.size
        assert self.size <= _MOST_LOAD * len(self._entries)
        assert np.array_equal(self.probe(self.keys[: self.size]), np.arange(self.size))


@kernel_part
def _find(entries: UInt64Array, keys: Int64Array, key: Any, code: Any, entry: Any) -> Any:
    """Walk from the first entry of a key, already read, to its own or an empty one: (slot or -1, position)."""
    mask = np.uint64(len(entries) - 1)
    position = code & mask
    tag = code >> _HALF_BITS
    while entry != 0:
        if entry >> _HALF_BITS == tag:
            slot = np.int64(entry & _LOW_HALF) - 1
            if keys[slot] == key:
                return slot, position
        position = (position + _ONE) & mask
        entry = entries[position]
    return np.int64(-1), position


@kernel
def _probe(entries: UInt64Array, keys: Int64Array, probes: Int64Array, slots: Int64Array) -> None:
    mask = np.uint64(len(entries) - 1)
    codes = np.empty(_BLOCK, np.uint64)
    firsts = np.empty(_BLOCK, np.uint64)
    for start in range(0, len(probes), _BLOCK):
        count = min(_BLOCK, len(probes) - start)
        for i in range(count):
            codes[i] = mix(probes[start + i])
        for i in range(count):
            firsts[i] = entries[codes[i] & mask]
        for i in range(count):
            slots[start + i] = _find(entries, keys, probes[start + i], codes[i], firsts[i])[0]


@kernel
def _insert(
    entries: UInt64Array, keys: Int64Array, size: int, inserted: Int64Array, slots: Int64Array
) -> tuple[int, int]:
    mask = np.uint64(len(entries) - 1)
    for i in range(len(inserted)):
        key = inserted[i]
        code = mix(key)
        slot, position = _find(entries, keys, key, code, entries[code & mask])
        if slot < 0:
            if size >= len(keys):
                return i, size
            slot = size
            keys[slot] = key
            entries[position] = (code >> _HALF_BITS << _HALF_BITS) | np.uint64(slot + 1)
            size += 1
        slots[i] = slot
    return len(inserted), size
