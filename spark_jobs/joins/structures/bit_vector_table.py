"""BiHT: which streams have a key, known by one look (002 §2.1).

    mix(key) = upper half | lower half        upper half -> line          lower half = the entry's hash
    line:  ten hashes of 4 bytes, ten bit vectors of 2, which of the ten are taken, how many went further

An entry takes 6 bytes and says for up to 16 streams whether any tuple with its hash is there. A line is 64 bytes, what
the processor fetches at once: so a look costs one wait, and those of a batch overlap. An entry that finds its line full
stands in one of the next; a line that nothing went past ends the search.

Two keys share an entry if their hashes and their places are the same. Then bits may be set that a key has not earned:
a look may promise a partner that is not there, never deny one that is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.hashing import mix
from spark_jobs.columns.jit import kernel, kernel_part, read_only

Int64Array = NDArray[np.int64]
_Lines = tuple[NDArray[np.uint32], NDArray[np.uint16], Int64Array, Int64Array]

MOST_STREAMS = 16
_ENTRIES = 10  # of a line
_FILLED = 8  # of them, on average, in a table that is full
_WORDS, _HALVES = 16, 32  # of a line, of 4 and of 2 bytes
_BITS = 20  # half at which the bit vectors begin
_TAKEN, _BEYOND = 30, 31  # halves: entries in use, one bit each; entries that went past this line
_ALL_TAKEN = (1 << _ENTRIES) - 1
_LINE_BYTES = 64
_USED = 0
# Keys looked up together.
BLOCK = 64
_LOWEST: NDArray[np.uint8] = np.array([0] + [(i & -i).bit_length() - 1 for i in range(1, 1 << _ENTRIES)], np.uint8)
_SET_BITS: NDArray[np.uint8] = np.array([bin(i).count("1") for i in range(256)], np.uint8)


class BitVectorTable:
    """Bit vectors by hash.

    Args:
        capacity: how many entries it has room for.
        exact: whether an entry holds its key too, 8 bytes more, so that no two keys share one.
    """

    def __init__(self, capacity: int, *, exact: bool = False) -> None:
        if capacity < 1:
            raise ValueError(f"a table holds at least one entry, not {capacity}")
        self.capacity = capacity
        self.exact = exact
        lines = _line_count(capacity)
        room = np.zeros((lines + 1) * _LINE_BYTES, np.uint8)
        first = -room.ctypes.data % _LINE_BYTES
        aligned = room[first : first + lines * _LINE_BYTES]
        self._words = aligned.view(np.uint32).reshape(lines, _WORDS)
        self._halves = aligned.view(np.uint16).reshape(lines, _HALVES)
        self._keys: Int64Array = np.zeros((lines if exact else 0, _ENTRIES), np.int64)
        self._counters: Int64Array = np.zeros(1, np.int64)
        self._lines: _Lines = (self._words, self._halves, self._keys, self._counters)

    @staticmethod
    def bytes_for(capacity: int, *, exact: bool = False) -> int:
        """Memory of this capacity, in bytes: 6 an entry, a quarter of that for the way a table is filled, a word."""
        lines = _line_count(capacity)
        return (lines + 1) * _LINE_BYTES + (lines * _ENTRIES * 8 if exact else 0) + 8

    def __len__(self) -> int:
        return int(self._counters[_USED])

    def add(self, stream: int, keys: Int64Array, wanted: int, block: int = BLOCK, *, newly: bool = False) -> Int64Array:
        """Note that a stream has these keys, and look which of them all the wanted streams have now: one look each.

        There must be room for those that are new. O(n).

        Args:
            stream: which.
            keys: int64, shape (n,).
            wanted: bits of streams.
            block: keys looked up together, up to 64; 1 is one at a time.
            newly: whether only those count that had not all wanted bits before.

        Returns:
            int64, shape (m,), rows of the keys whose bit vector has all the wanted bits, ascending.
        """
        return _add(self._lines, read_only(keys), (1 << stream, wanted, min(block, BLOCK), newly))

    def bits_of(self, keys: Int64Array) -> Int64Array:
        """The bit vector of each key, int64, shape (n,); 0 where there is no entry. O(n)."""
        return _bits_of(self._lines, read_only(keys))

    def remove(self, keys: Int64Array) -> None:
        """Forget the entries of these keys, if there are any: their tuples have left, of all streams. O(n)."""
        _remove(self._lines, read_only(keys))

    def fewest_bits(self, tuples: int) -> int:
        """The most set bits that enough entries have: those with at least that many have this many bits. O(memory)."""
        by_bits = _entries_by_bits(self._lines)
        enough = np.cumsum((by_bits * np.arange(MOST_STREAMS + 1))[::-1])[::-1] >= tuples
        return int(np.flatnonzero(enough)[-1]) if enough.any() else 1

    def hashes_with(self, fewest: int, tuples: int, from_line: int, hashes: Int64Array) -> tuple[int, int]:
        """The hashes of entries with at least so many bits, line by line from one on, round the table. O(memory).

        Args:
            fewest: bits.
            tuples: enough when those found have so many bits.
            from_line: where to begin.
            hashes: int64, shape (m,), takes them; enough also when it is full.

        Returns:
            How many, and the line after the last one looked at.
        """
        count, line = _hashes_with(self._lines, (fewest, tuples, from_line % len(self._words)), hashes)
        return int(count), int(line)

    def memory_used(self) -> int:
        """Bytes of its arrays."""
        return self._words.nbytes + _LINE_BYTES + self._keys.nbytes + self._counters.nbytes

    def check(self) -> None:
        """Assert that entries in use have bits and others none. O(memory)."""
        taken = (self._halves[:, _TAKEN, np.newaxis] >> np.arange(_ENTRIES)) & 1
        bits = self._halves[:, _BITS : _BITS + _ENTRIES]
        assert ((bits != 0) == (taken == 1)).all()
        assert taken.sum() == len(self)


def _line_count(capacity: int) -> int:
    return -(-capacity // _FILLED)


@kernel_part
def _home(words: NDArray[np.uint32], code: Any) -> Any:
    """The upper half of a hash code, scaled to the number of lines, which need not be a power of two."""
    return np.int64(((code >> np.uint64(32)) * np.uint64(len(words))) >> np.uint64(32))


@kernel_part
def _entry(lines: _Lines, line: Any, code: Any, key: Any) -> Any:
    """The entry of a line with this hash (and key, where entries have one); -1 if there is none. Free of branches."""
    words, halves, keys, _ = lines
    tag = np.uint32(code)
    same = np.int64(0)
    for entry in range(_ENTRIES):
        same |= np.int64(words[line, entry] == tag) << entry
    same &= np.int64(halves[line, _TAKEN])
    if len(keys):
        while same and keys[line, _LOWEST[same]] != key:
            same &= same - 1
    return np.int64(_LOWEST[same]) if same else np.int64(-1)


@kernel_part
def _find(lines: _Lines, key: Any, code: Any, line: Any) -> Any:
    """Line and entry of a key, from its home on; the entry is -1 if there is none."""
    halves = lines[1]
    entry = _entry(lines, line, code, key)
    while entry < 0 and halves[line, _BEYOND]:
        line += 1
        if line == len(halves):
            line = 0
        entry = _entry(lines, line, code, key)
    return line, entry


@kernel_part
def _line_with_room(halves: NDArray[np.uint16], line: Any) -> Any:
    """The first line from one on that has a free entry; those before it note that an entry went past."""
    while halves[line, _TAKEN] == _ALL_TAKEN:
        halves[line, _BEYOND] += 1
        line += 1
        if line == len(halves):
            line = 0
    return line


@kernel
def _add(lines: _Lines, added: Int64Array, asked: Any) -> Int64Array:
    words, halves, keys, counters = lines
    bit, wanted, block, newly = asked
    complete = np.empty(len(added), np.int64)
    codes, homes = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.int64)
    touched = np.empty(BLOCK, np.uint32)
    count = 0
    for start in range(0, len(added), block):
        length = min(block, len(added) - start)
        for i in range(length):
            codes[i] = mix(added[start + i])
            homes[i] = _home(words, codes[i])
        for i in range(length):
            touched[i] = words[homes[i], 0]
        for i in range(length):
            key, code = added[start + i], codes[i]
            line, entry = _find(lines, key, code, homes[i])
            if entry < 0:
                line = _line_with_room(halves, homes[i])
                taken = np.int64(halves[line, _TAKEN])
                entry = np.int64(_LOWEST[~taken & _ALL_TAKEN])
                halves[line, _TAKEN] = taken | (1 << entry)
                words[line, entry] = np.uint32(code)
                if len(keys):
                    keys[line, entry] = key
                counters[_USED] += 1
            before = np.int64(halves[line, _BITS + entry])
            bits = before | bit
            halves[line, _BITS + entry] = bits
            complete[count] = start + i
            count += (bits & wanted) == wanted and not (newly and (before & wanted) == wanted)
    return complete[:count]


@kernel
def _bits_of(lines: _Lines, asked: Int64Array) -> Int64Array:
    words, halves, _, _ = lines
    bits = np.zeros(len(asked), np.int64)
    for i in range(len(asked)):
        code = mix(asked[i])
        line, entry = _find(lines, asked[i], code, _home(words, code))
        if entry >= 0:
            bits[i] = halves[line, _BITS + entry]
    return bits


@kernel
def _remove(lines: _Lines, removed: Int64Array) -> None:
    words, halves, _, counters = lines
    for i in range(len(removed)):
        code = mix(removed[i])
        home = _home(words, code)
        line, entry = _find(lines, removed[i], code, home)
        if entry >= 0:
            halves[line, _BITS + entry] = 0
            halves[line, _TAKEN] = np.int64(halves[line, _TAKEN]) & ~(1 << entry)
            counters[_USED] -= 1
            while home != line:
                halves[home, _BEYOND] -= 1
                home += 1
                if home == len(halves):
                    home = 0


@kernel_part
def _set_bits(bits: Any) -> Any:
    return np.int64(_SET_BITS[bits & 255]) + np.int64(_SET_BITS[bits >> 8])


@kernel
def _entries_by_bits(lines: _Lines) -> Int64Array:
    halves = lines[1]
    counts = np.zeros(MOST_STREAMS + 1, np.int64)
    for line in range(len(halves)):
        for entry in range(_ENTRIES):
            counts[_set_bits(np.int64(halves[line, _BITS + entry]))] += 1
    counts[0] = 0
    return counts


@kernel
def _hashes_with(lines: _Lines, asked: Any, hashes: Int64Array) -> Any:
    words, halves, _, _ = lines
    fewest, tuples, line = asked
    count = found = 0
    for _ in range(len(halves)):
        for entry in range(_ENTRIES):
            bits = _set_bits(np.int64(halves[line, _BITS + entry]))
            if bits >= fewest and count < len(hashes) and found < tuples:
                hashes[count] = words[line, entry]
                count += 1
                found += bits
        line = line + 1 if line + 1 < len(halves) else 0
        if count == len(hashes) or found >= tuples:
            break
    return count, line
