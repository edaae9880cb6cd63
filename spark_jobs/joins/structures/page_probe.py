"""Joins the stream tuples that wait for a page of R with the keys on it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.hashing import mix
from spark_jobs.columns.jit import kernel

Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]

_ENTRY_BYTES = 4
_NONE: Int64Array = np.empty(0, np.int64)

# The filter of waiting keys takes the uppermost bits of their hash codes.
_FILTER_BITS = 4096
_FILTER_SHIFT = np.uint64(64 - 12)
_ONE, _SIX, _WORD_MASK = np.uint64(1), np.uint64(6), np.uint64(63)


class PageJoin(NamedTuple):
    """What became of the stream tuples that waited for a page.

    Attributes:
        ids: int64, shape (m,), tuples that found their key on the page.
        rows: int64, shape (m,), the row of the page that each found.
        unmatched: int64, shape (u,), tuples whose key is not on it.
    """

    ids: Int64Array
    rows: Int64Array
    unmatched: Int64Array


class PageProbe:
    """A hash index of a page's keys, made anew for every page in the same memory.

    Most keys on a page have no tuple waiting: a small filter of the waiting keys keeps them out of
    the index, so that a page costs little more than the hash codes of its keys.

    Args:
        memory_bytes: for the index; 8 bytes a key. A page with more keys than it takes at once is
            probed piece by piece.
    """

    def __init__(self, memory_bytes: int) -> None:
        # A power of two long: row + 1 of a key, 0 = empty.
        self._index: Int32Array = np.zeros(_entry_count(memory_bytes), np.int32)

    @staticmethod
    def bytes_for(memory_bytes: int) -> int:
        """How much of that memory it takes: the largest power of two that fits, at least two entries."""
        return _entry_count(memory_bytes) * _ENTRY_BYTES

    def join(self, keys: Int64Array, ids: Int64Array, page_keys: Int64Array) -> PageJoin:
        """Find the row of every waiting tuple. O(n + m), about 1 ns a key on the page.

        Args:
            keys: int64, shape (n,), keys of the waiting tuples.
            ids: int64, shape (n,), their ids.
            page_keys: int64, shape (m,), the keys on the page, distinct, in any order.
        """
        ids, rows, matched = _join(keys, ids, page_keys, self._index)
        if matched == len(ids):
            return PageJoin(ids, rows, _NONE)
        return PageJoin(ids[:matched], rows[:matched], ids[matched:])

    def memory_used(self) -> int:
        """Bytes of its array."""
        return self._index.nbytes


def _entry_count(memory_bytes: int) -> int:
    return 1 << max(1, (memory_bytes // _ENTRY_BYTES).bit_length() - 1)


@kernel
def _join(
    keys: Int64Array, ids: Int64Array, page_keys: Int64Array, index: Int32Array
) -> tuple[Int64Array, Int64Array, int]:
    """Ids with the matched ones in front, the rows of these, and their count."""
    rows = _find_rows(keys, page_keys, index)
    parted = np.empty(len(ids), np.int64)
    matched, unmatched = 0, len(ids)
    for i in range(len(ids)):
        if rows[i] >= 0:
            parted[matched], rows[matched] = ids[i], rows[i]
            matched += 1
        else:
            unmatched -= 1
            parted[unmatched] = ids[i]
    return parted, rows, matched


@kernel
def _find_rows(keys: Int64Array, page_keys: Int64Array, index: Int32Array) -> Int64Array:
    """The row of each key on the page, -1 where it has none."""
    rows = np.full(len(keys), -1, np.int64)
    waiting = _filter(keys)
    piece = len(index) // 2
    for start in range(0, len(page_keys), piece):
        stop = min(start + piece, len(page_keys))
        mask = _index_piece(page_keys[start:stop], waiting, index)
        for i in range(len(keys)):
            position = mix(keys[i]) & mask
            while rows[i] < 0 and index[position]:
                row = start + index[position] - 1
                if page_keys[row] == keys[i]:
                    rows[i] = row
                position = (position + _ONE) & mask
    return rows


@kernel
def _filter(keys: Int64Array) -> NDArray[np.uint64]:
    """One bit for each waiting key, by the start of its hash code."""
    waiting = np.zeros(_FILTER_BITS // 64, np.uint64)
    for i in range(len(keys)):
        bit = mix(keys[i]) >> _FILTER_SHIFT
        waiting[bit >> _SIX] |= _ONE << (bit & _WORD_MASK)
    return waiting


@kernel
def _index_piece(page_keys: Int64Array, waiting: NDArray[np.uint64], index: Int32Array) -> np.uint64:
    """Index the keys that pass the filter, by linear probing; the mask of positions.

    At a load of a quarter where memory allows, of a half at most: where most keys pass, that takes a third less time.
    """
    entries = 2
    while entries < 4 * len(page_keys) and 2 * entries <= len(index):
        entries *= 2
    index[:entries] = 0
    mask = np.uint64(entries - 1)
    for row in range(len(page_keys)):
        code = mix(page_keys[row])
        bit = code >> _FILTER_SHIFT
        if waiting[bit >> _SIX] >> (bit & _WORD_MASK) & _ONE:
            position = code & mask
            while index[position]:
                position = (position + _ONE) & mask
            index[position] = row + 1
    return mask
