"""The frequency recorder of the front stage: exact for tuples in the cache, estimated for all others, both ageing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.structures.frequency_sketch import FrequencySketch

Int64Array = NDArray[np.int64]
Float32Array = NDArray[np.float32]

_ONE = np.float32(1)
# Nothing is left of any count after so many.
_ENOUGH_HALVINGS = 64


class FrequencyRecorder:
    """How often keys occurred in the stream lately.

    Everything counts half after every `half_life` further stream tuples, so that what was popular
    once gives way to what is popular now. Time passes in `age` only: what is counted between two
    calls weighs the same, in whatever order it comes.

    Args:
        capacity: slots of the cache.
        half_life: stream tuples, at least 1.

    Attributes:
        of_slots: float32, shape (capacity,), the frequency of the tuple in each slot.
        total: all stream tuples counted, aged as the frequencies are.
    """

    def __init__(self, capacity: int, half_life: int) -> None:
        self.of_slots: Float32Array = np.zeros(capacity, np.float32)
        self.total = 0.0
        self._half_life = half_life
        self._of_others = FrequencySketch(capacity)
        self._since_halving = 0  # stream tuples

    @staticmethod
    def bytes_for(capacity: int) -> int:
        """Memory for this capacity, in bytes."""
        return capacity * np.dtype(np.float32).itemsize + FrequencySketch.bytes_for(capacity)

    def record_slots(self, slots: Int64Array, counts: Int64Array) -> None:
        """Count stream tuples that found theirs in the cache; a slot may stand several times. O(n).

        Args:
            slots: int64, shape (n,).
            counts: int64, shape (n,).
        """
        self._count(counts)
        np.add.at(self.of_slots, slots, counts.astype(np.float32))

    def record_each(self, slots: Int64Array) -> None:
        """Count one stream tuple for each of these slots, int64, shape (n,); a slot may stand several times. O(n)."""
        self._since_halving += len(slots)
        self.total += len(slots)
        np.add.at(self.of_slots, slots, _ONE)

    def record_others(self, keys: Int64Array, counts: Int64Array) -> Int64Array:
        """Count stream tuples whose keys are not in the cache; their estimated frequencies. O(n).

        Args:
            keys: int64, shape (n,).
            counts: int64, shape (n,).

        Returns:
            int64, shape (n,).
        """
        self._count(counts)
        return self._of_others.add(keys, counts)

    def estimates(self, keys: Int64Array) -> Int64Array:
        """Estimated frequencies of keys that are not in the cache, int64, shape (n,). O(n)."""
        return self._of_others.estimates(keys)

    def replace(self, slots: Int64Array, evicted: Int64Array, frequencies: Int64Array) -> None:
        """Tuples leave the cache for others: those are remembered among the others, these counted from now on.

        Args:
            slots: int64, shape (n,), distinct.
            evicted: int64, shape (n,), or (0,) if the slots were empty: keys that leave.
            frequencies: int64, shape (n,), of the tuples that come.
        """
        if evicted.size:
            known = self.estimates(evicted)
            counted = self.of_slots[slots].astype(np.int64)
            self._of_others.add(evicted, np.maximum(counted - known, 0))
        self.of_slots[slots] = frequencies

    def age(self) -> None:
        """Let the stream tuples that have been counted pass as time. O(capacity) for each half-life."""
        halvings, self._since_halving = divmod(self._since_halving, self._half_life)
        for _ in range(min(halvings, _ENOUGH_HALVINGS)):
            self.of_slots *= np.float32(0.5)
            self.total *= 0.5
            self._of_others.halve()

    def memory_used(self) -> int:
        """Bytes of its arrays."""
        return self.of_slots.nbytes + self._of_others.memory_used()

    def check(self) -> None:
        """Assert that no frequency is negative or lost. O(capacity)."""
        assert np.isfinite(self.of_slots).all()
        assert (self.of_slots >= 0).all()

    def _count(self, counts: Int64Array) -> None:
        counted = int(counts.sum())
        self._since_halving += counted
        self.total += counted
