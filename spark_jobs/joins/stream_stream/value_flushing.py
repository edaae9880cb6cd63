"""Which hash values an n-way join flushes, with the tuples of all streams (coordinated flush, 002 §2.2)."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.hashing import mix
from spark_jobs.columns.jit import kernel
from spark_jobs.joins.structures.bit_vector_table import BitVectorTable
from spark_jobs.joins.structures.hashed_streams import HashedStreams

Int64Array = NDArray[np.int64]

# A guess of how many tuples a hash value has, low so that not many more are flushed than are asked for.
_TUPLES_OF_A_VALUE = 4


class ValueFlushing(Protocol):
    """Chooses hash values.

    Attributes:
        needs_bits: whether it looks at bit vectors, which AMJoin alone has.
    """

    needs_bits: bool

    def choose(self, tables: HashedStreams, bits: BitVectorTable | None, tuples: int, most: int) -> Int64Array:
        """Hash values to flush.

        Args:
            tables: what the streams hold, at least one tuple; a hash value is one of its buckets.
            bits: their bit vectors, if there are any.
            tuples: roughly how many tuples are to go.
            most: values at most.

        Returns:
            int64, shape (v,), 0 < v <= most; at least one has tuples.
        """


class RandomValue:
    """MJoin's: a hash value at random, of those that have tuples. O(1) each, while most have.

    Args:
        seed: equal seeds make equal choices.
    """

    needs_bits = False

    def __init__(self, seed: int = 0) -> None:
        self._drawn: Int64Array = np.array([seed, 0], np.int64)

    def choose(self, tables: HashedStreams, bits: BitVectorTable | None, tuples: int, most: int) -> Int64Array:
        """Draw them."""
        chosen = np.empty(max(1, min(most, tuples // _TUPLES_OF_A_VALUE)), np.int64)
        _draw(tables.heads, self._drawn, chosen)
        return chosen


class MostBits:
    """AMJoin's: hash values whose bit vectors have most bits set, and so most tuples. O(bit vectors) a choice.

    Args:
        fewest: 0 for those with the most; otherwise any with at least so many bits (2 in the paper's experiment,
            002 §3), which takes no look at the whole table. Where there are none, any.
    """

    needs_bits = True

    def __init__(self, fewest: int = 0) -> None:
        if fewest < 0:
            raise ValueError(f"a bit vector has no {fewest} bits")
        self._fewest = fewest
        self._line: Int64Array = np.zeros(1, np.int64)

    def choose(self, tables: HashedStreams, bits: BitVectorTable | None, tuples: int, most: int) -> Int64Array:
        """From the line on at which the last choice ended."""
        assert bits is not None
        hashes = np.empty(min(most, tuples), np.int64)
        count, fewest = 0, self._fewest or bits.fewest_bits(tuples)
        while not count:
            count, self._line[0] = bits.hashes_with(fewest, tuples, int(self._line[0]), hashes)
            fewest = 1
        return hashes[:count] & (len(tables.heads) - 1)


@kernel
def _draw(heads: NDArray[np.int32], drawn: Int64Array, chosen: Int64Array) -> None:
    for i in range(len(chosen)):
        # Mixed twice, for a seed and the next one are not to give the same values one place apart.
        code = mix(np.int64(mix(drawn[0])) + drawn[1])
        bucket = np.int64(code & np.uint64(len(heads) - 1))
        drawn[1] += 1
        empty = True
        for _ in range(len(heads)):
            for stream in range(heads.shape[1]):
                empty = empty and heads[bucket, stream] == 0
            if not empty:
                break
            bucket = (bucket + 1) & (len(heads) - 1)
        chosen[i] = bucket
