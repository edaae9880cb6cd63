"""Which keys all streams have: the query for ids alone, answered by the bit vectors alone (Q2 of 002 §2.3)."""

from __future__ import annotations

import numpy as np

from spark_jobs.errors import JoinStateError, MemoryBudgetError
from spark_jobs.joins.memory_budget import most_within
from spark_jobs.joins.stream_stream.base import MOST_STREAMS, Int64Array
from spark_jobs.joins.structures.bit_vector_table import BLOCK, BitVectorTable

_MOST_KEYS = 2**40


class KeysInAllStreams:
    """Tells each key once, when the last of the streams brings it. No tuple is kept: 7.5 to 8 bytes a key.

    An entry holds 4 bytes of a key's hash, and its place in the table tells a little more of it. So an answer may be
    wrong, unless entries hold the keys: two keys that share an entry lend each other their streams. Among N keys in a
    table of l lines of 64 bytes that is to be expected of N^2 / (2^33 l) pairs: one full table in 1,000 has such a pair
    among a million keys, one in 100 among ten million. A key may then be told that not all streams have, or one that
    all have may go untold, for its twin was told before.

    Args:
        streams: from 2 to 16.
        memory_bytes: the budget.
        exact: whether entries hold their keys, 8 bytes more each, so that every answer is right.
        block: keys looked up together; 1 is one at a time.

    Raises:
        MemoryBudgetError: the budget holds no key.
        ValueError: there are too many streams for a bit vector, or one alone.

    Attributes:
        looks: keys looked up so far.
    """

    def __init__(self, streams: int, memory_bytes: int, *, exact: bool = False, block: int = BLOCK) -> None:
        if not 2 <= streams <= MOST_STREAMS:
            raise ValueError(f"a bit vector serves from 2 to {MOST_STREAMS} streams, not {streams}")
        capacity = most_within(memory_bytes, lambda keys: BitVectorTable.bytes_for(keys, exact=exact), _MOST_KEYS)
        if not capacity:
            least = BitVectorTable.bytes_for(1, exact=exact)
            raise MemoryBudgetError(f"keys_in_all_streams was given {memory_bytes:,} bytes, but one key takes {least}")
        self.streams = streams
        self.looks = 0
        self._bits = BitVectorTable(capacity, exact=exact)
        self._all = (1 << streams) - 1
        self._block = block

    def arrive(self, stream: int, keys: Int64Array) -> Int64Array:
        """Take keys of a stream, int64, shape (n,); those of them that it was the last to have, each once. O(n).

        Raises:
            JoinStateError: there is no such stream.
            MemoryBudgetError: there may not be room for these keys. None of them is taken then.
        """
        if not 0 <= stream < self.streams:
            raise JoinStateError(f"there is no stream {stream}: there are {self.streams}, numbered from 0")
        keys = np.ascontiguousarray(keys, np.int64)
        if len(self._bits) + len(keys) > self._bits.capacity:
            absent = len(np.unique(keys[self._bits.bits_of(keys) == 0]))
            if len(self._bits) + absent > self._bits.capacity:
                raise MemoryBudgetError(
                    f"keys_in_all_streams has room for {self._bits.capacity - len(self._bits):,} keys more, but "
                    f"{absent:,} came that are new: give it more than {self._bits.memory_used():,} bytes"
                )
        self.looks += len(keys)
        return keys[self._bits.add(stream, keys, self._all, self._block, newly=True)]

    def memory_used(self) -> int:
        """Bytes of the bit vectors."""
        return self._bits.memory_used()
