"""A sketch of event ids, small enough for every batch: tells whether what is stored is what arrived.

The sketch of the ids that arrived minus that of the ids that are stored is the sketch of their difference E, in which a
lost id has the frequency 1 and a doubled one -1. It is zero if E is. If E is not, it is zero all the same with the
probability `MISS` at most: a table's sum of squares is F2(E) on average, with a variance of at most 2 F2(E)^2 / BUCKETS
(see join_size), so that by Chebyshev's inequality it is zero with a probability of 2 / BUCKETS at most, and the tables
are independent. One id that is lost or doubled is never missed, for its counter is 1 or -1; a lost and a doubled one
are missed with the probability (2 BUCKETS)^-TABLES, for they have to share every counter.

What two ids of one hash code, of 64 bits, do to each other can't be seen: n ids that are lost and m others that are
doubled hide each other with the probability n m / 2^64.
"""

from __future__ import annotations

import zlib
from copy import copy
from functools import cache
from typing import NamedTuple, Self

import numpy as np

from spark_jobs.errors import SketchDamagedError
from spark_jobs.sketches.hash_sketch import HashSketch
from spark_jobs.sketches.join_size import CONFIDENCE, Estimate
from spark_jobs.sketches.linear_sketch import Int64Array

TABLES, BUCKETS = 5, 64
"""Frozen, as the seed is: sketches that lie in a ledger are added to new ones. Some 400 bytes packed; 25 ns an id."""
MISS = (2 / BUCKETS) ** TABLES
"""With at most this probability, 3 in 100 million, a difference of any ids is taken for none."""

_SEED = 20_120
_FORMAT = b"\x01"
_NUMBER = np.dtype("<i8")


class Difference(NamedTuple):
    """What the sketch of a difference tells.

    Attributes:
        ids: how many ids are lost or doubled; each time more that an id is doubled counts as its square.
        net: how many more are lost than doubled; exact.
    """

    ids: Estimate
    net: int


class IdSketch:
    """The sketch of a multiset of event ids, by their hash codes; and how many they are.

    Args:
        hashes: of the ids, int64, shape (n,).

    Attributes:
        count: ids that were added, less those that were taken out.
    """

    def __init__(self, hashes: Int64Array | None = None) -> None:
        self._sketch = copy(_empty())
        self._sketch.counters = np.zeros((TABLES, BUCKETS), np.int64)
        self.count = 0
        if hashes is not None:
            self.add(hashes)

    def add(self, hashes: Int64Array) -> None:
        """Add ids, by their hash codes: int64, shape (n,). O(n), 25 ns each."""
        self._sketch.update(hashes)
        self.count += len(hashes)

    def remove(self, hashes: Int64Array) -> None:
        """Take ids out, whether they are in it or not, as `add`."""
        self._sketch.update(hashes, np.full(len(hashes), -1, np.int64))
        self.count -= len(hashes)

    def __iadd__(self, other: Self) -> Self:
        self._sketch.counters += other._sketch.counters
        self.count += other.count
        return self

    def __isub__(self, other: Self) -> Self:
        self._sketch.counters -= other._sketch.counters
        self.count -= other.count
        return self

    @property
    def is_zero(self) -> bool:
        """Whether as many ids were taken out as were added, and the same ones; wrong with the probability `MISS`."""
        return self.count == 0 and self._sketch.is_zero

    def difference(self, confidence: float = CONFIDENCE) -> Difference:
        """How many ids are in it, or were taken out of it without being in it.

        Args:
            confidence: of the error that is told.
        """
        return Difference(self._sketch.self_join_size(confidence), self.count)

    def to_bytes(self) -> bytes:
        """The sketch as bytes, with a checksum; the same on every machine."""
        numbers = np.concatenate([[self.count], self._sketch.counters.ravel()]).astype(_NUMBER, copy=False)
        return _FORMAT + zlib.compress(numbers.tobytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The sketch that `to_bytes` wrote.

        Raises:
            SketchDamagedError: the bytes are damaged, or of another format.
        """
        made = cls()
        try:
            numbers = np.frombuffer(zlib.decompress(data[1:]), _NUMBER)
        except (zlib.error, ValueError) as error:
            raise SketchDamagedError(f"The bytes of a sketch of ids are damaged: {error}. Take another copy.") from None
        if data[:1] != _FORMAT or len(numbers) != 1 + made._sketch.counters.size:
            raise SketchDamagedError(
                "These bytes are no sketch of ids, or of a later version: read them with the version that wrote them."
            )
        made.count = int(numbers[0])
        made._sketch.counters += numbers[1:].reshape(TABLES, BUCKETS)
        return made


@cache
def _empty() -> HashSketch:
    """Its hash functions serve all sketches: to draw them takes longer than to sketch a thousand ids."""
    return HashSketch(TABLES, BUCKETS, seed=_SEED)
