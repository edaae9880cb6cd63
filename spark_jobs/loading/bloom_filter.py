"""A split block Bloom filter over hash codes, in memory of one process or of all that it forks."""

from __future__ import annotations

import mmap

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.jit import kernel

Int64Array = NDArray[np.int64]
Bools = NDArray[np.bool_]
Words = NDArray[np.uint32]

_BLOCK_WORDS = 8
_BLOCK_BYTES = 4 * _BLOCK_WORDS
# With more, false alarms get expensive: each costs an index probe.
_CODES_PER_BLOCK = 24
# Odd multipliers of the split block Bloom filter, from the Parquet format's specification.
_SALT = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)


class BloomFilter:
    """A split block Bloom filter over 64-bit hash codes: one cache line is read for each question.

    The share of codes that it takes for known although they were never added, with 8 MiB (measured; a filter
    twice as large bears twice as many):

        codes added    1 million   2 million   4 million   8 million   16 million
        false alarms   < 0.001 %     0.002 %       0.1 %       2.7 %         29 %

    Args:
        memory: bytes; rounded down to whole blocks of 32.
        shared: whether processes that are forked from now on add to this filter, and find in it what others added.
            Where two write one word at once, a code may be lost.
    """

    def __init__(self, memory: int, *, shared: bool = False) -> None:
        size = max(memory // _BLOCK_BYTES, 1) * _BLOCK_BYTES
        space = np.frombuffer(mmap.mmap(-1, size + 8), np.uint8) if shared else np.zeros(size + 8, np.uint8)
        self._words = space[:size].view(np.uint32).reshape(-1, _BLOCK_WORDS)
        self._added = space[size:].view(np.int64)

    @property
    def added(self) -> int:
        """How many codes were added, those that were added again counted each time."""
        return int(self._added[0])

    @property
    def bears(self) -> int:
        """How many codes it bears with less than 1 % of false alarms."""
        return _CODES_PER_BLOCK * len(self._words)

    @staticmethod
    def memory_for(codes: int) -> int:
        """Bytes that a filter needs to bear this many codes."""
        return -(-codes // _CODES_PER_BLOCK) * _BLOCK_BYTES

    def add(self, codes: Int64Array) -> None:
        """Add hash codes, int64, shape (n,). O(n)."""
        _add(self._words, codes, _SALT)
        self._added += len(codes)

    def clear(self) -> None:
        """Forget all codes."""
        self._words[:] = 0
        self._added[:] = 0

    def may_contain(self, codes: Int64Array) -> Bools:
        """False for codes that were certainly never added, bool, shape (n,). O(n), some 10 ns each."""
        possible = np.zeros(len(codes), np.bool_)
        if self.added:
            _find(self._words, codes, _SALT, possible)
        return possible


@kernel
def _block_of(code: np.uint64, blocks: int) -> np.int64:
    return np.int64(((code >> np.uint64(32)) * np.uint64(blocks)) >> np.uint64(32))


@kernel
def _bit_of(code: np.uint64, salt: np.uint32) -> np.uint32:
    spread = np.uint32(np.uint32(code) * salt)
    return np.uint32(1) << (spread >> np.uint32(27))


@kernel
def _add(words: Words, codes: Int64Array, salts: Words) -> None:
    for i in range(len(codes)):
        code = np.uint64(codes[i])
        block = _block_of(code, words.shape[0])
        for k in range(8):
            words[block, k] |= _bit_of(code, salts[k])


@kernel
def _find(words: Words, codes: Int64Array, salts: Words, possible: Bools) -> None:
    for i in range(len(codes)):
        code = np.uint64(codes[i])
        block = _block_of(code, words.shape[0])
        found = True
        for k in range(8):
            bit = _bit_of(code, salts[k])
            found &= (words[block, k] & bit) == bit
        possible[i] = found
