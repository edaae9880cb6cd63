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

    The sketch overrates what is not in the cache, the more so the more keys there are. What it says of keys
    never seen is therefore taken off; else each newcomer would seem more frequent than the tuples in the
    slots, which are counted exactly, and the cache would change for ever where all are equally frequent.

    Args:
        capacity: slots of the cache.
        half_life: stream tuples, at least 1.

    Attributes:
        of_slots: float32, shape (capacity,), the frequency of the tuple in each slot.
        total: all stream tuples counted, aged as the frequencies are.
        since_aged: stream tuples counted since time last passed.
    """

    def __init__(self, capacity: int, half_life: int) -> None:
        self.of_slots: Float32Array = np.zeros(capacity, np.float32)
        self.total = 0.0
        self._half_life = half_life
        self._of_others = FrequencySketch(capacity)
        self.since_aged = 0
        self._noise = 0  # as of when time last passed
        self._since_halving = 0  # stream tuples, up to when time last passed

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
        self._passed(int(counts.sum()))
        np.add.at(self.of_slots, slots, counts.astype(np.float32))

    def record_each(self, slots: Int64Array) -> None:
        """Count one stream tuple for each of these slots, int64, shape (n,); a slot may stand several times. O(n)."""
        self._passed(len(slots))
        np.add.at(self.of_slots, slots, _ONE)

    def record_others(self, keys: Int64Array, counts: Int64Array) -> Int64Array:
        """Count stream tuples whose keys are not in the cache; their frequencies, at least the counts. O(n).

        Args:
            keys: int64, shape (n,).
            counts: int64, shape (n,).

        Returns:
            int64, shape (n,).
        """
        self._passed(int(counts.sum()))
        return np.maximum(self._of_others.add(keys, counts) - self._noise, counts)

    def record_rows(self, keys: Int64Array, rows: Int64Array, least: int) -> Int64Array:
        """Count one stream tuple for each of these rows of a page, as if its key were not in the cache. O(n + m).

        Args:
            keys: int64, shape (m,), distinct, those of the page.
            rows: int64, shape (n,); a row may stand several times.
            least: from which frequency on rows are wanted.

        Returns:
            int64, shape (3, f): those rows, distinct; how often each stands here; their frequencies.
        """
        self._passed(len(rows))
        return self._of_others.add_each(keys, rows, least, self._noise)

    def credit_slots(self, slots: Int64Array, counts: Int64Array) -> None:
        """Count for the cache what `record_rows` has counted among the others. O(n).

        Args:
            slots: int64, shape (n,), distinct.
            counts: int64, shape (n,).
        """
        self.of_slots[slots] += counts

    def estimates(self, keys: Int64Array) -> Int64Array:
        """Estimated frequencies of keys that are not in the cache, int64, shape (n,). O(n)."""
        return np.maximum(self._of_others.estimates(keys) - self._noise, 0)

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

    def keep(self, slots: Int64Array) -> None:
        """Move the frequencies of these slots, int64 (n,), to the first n, and forget the others. O(capacity)."""
        self.of_slots[: len(slots)] = self.of_slots[slots]
        self.of_slots[len(slots) :] = 0

    def replace_all(self, slots: Int64Array, evicted: Int64Array, frequencies: Float32Array) -> None:
        """Other tuples take the slots, from the first one on; those that leave are remembered. O(capacity).

        Args:
            slots: int64, shape (m,), slots of those that leave the cache.
            evicted: int64, shape (m,), their keys.
            frequencies: float32, shape (n,), of the tuples that are in the cache now.
        """
        self.replace(slots, evicted, np.zeros(len(slots), np.int64))
        self.of_slots[: len(frequencies)] = frequencies
        self.of_slots[len(frequencies) :] = 0
        # They were counted in at least so many stream tuples, in a cache that may have seen none yet.
        self.total = max(self.total, float(frequencies.sum()))

    def age(self) -> None:
        """Let the stream tuples that have been counted pass as time. O(capacity) for each half-life."""
        halvings, self._since_halving = divmod(self._since_halving + self.since_aged, self._half_life)
        self.since_aged = 0
        for _ in range(min(halvings, _ENOUGH_HALVINGS)):
            self.of_slots *= np.float32(0.5)
            self.total *= 0.5
            self._of_others.halve()
        self._noise = self._of_others.noise()

    def memory_used(self) -> int:
        """Bytes of its arrays."""
        return self.of_slots.nbytes + self._of_others.memory_used()

    def check(self) -> None:
        """Assert that no frequency is negative or lost. O(capacity)."""
        assert np.isfinite(self.of_slots).all()
        assert (self.of_slots >= 0).all()

    def _passed(self, count: int) -> None:
        self.since_aged += count
        self.total += count
