"""Stream tuples found by key, whose memory is free as soon as they are joined: H_S of a MESHJOIN with early release."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.jit import kernel
from spark_jobs.joins.structures.key_chains import KeyChains, Tuples

Int64Array = NDArray[np.int64]


class KeyedTuples:
    """A hash multimap without an order of arrival; 25 bytes a tuple.

    Tuples whose key is nowhere are found by sweeps over the buckets: one that a second sweep meets has
    been there for as long as lies between the two.

    Args:
        capacity: how many tuples it takes.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._chains = KeyChains(capacity)
        self._length = 0
        self._highest = 0  # the highest place ever taken
        self._freed = 0  # the place freed last, which links to the one before; 0 = none
        self._swept = 0  # buckets that the present sweep has passed

    @staticmethod
    def bytes_for(capacity: int) -> int:
        """Memory of this capacity, in bytes."""
        return KeyChains.bytes_for(capacity)

    def __len__(self) -> int:
        return self._length

    def append(self, keys: Int64Array, ids: Int64Array) -> None:
        """Add tuples; there must be room. O(n).

        Args:
            keys: int64, shape (n,).
            ids: int64, shape (n,), at least 0.
        """
        places = np.empty(len(keys), np.int64)
        self._freed, self._highest = _allocate(self._chains.tuples, self._freed, self._highest, places)
        self._chains.append(places, keys, ids)
        self._length += len(keys)

    def take(self, page_keys: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Take out all tuples with the keys on a page of R. O(m + n).

        Args:
            page_keys: int64, shape (m,), distinct.

        Returns:
            ids and rows, int64, shape (n,) each: tuple ids[i] has the key page_keys[rows[i]].
        """
        places, rows = self._chains.take(page_keys)
        return self._release(places), rows

    def sweep(self, share: float) -> Int64Array:
        """Sweep on until this share of all buckets is passed, 1 for the end, after which the next begins anew.

        Returns:
            int64, shape (n,), ids of the tuples, taken out, that the sweep before this one has passed
            as well. O(buckets).
        """
        until = max(self._swept, int(share * self.capacity))
        places = self._chains.sweep(self._swept, until)
        self._swept = until if share < 1 else 0
        return self._release(places)

    def take_some(self, count: int) -> Int64Array:
        """Take out tuples, whichever; their ids, int64, shape (min(count, length),). O(capacity)."""
        return self._release(self._chains.take_some(min(count, self._length)))

    def memory_used(self) -> int:
        """Bytes of its arrays."""
        return self._chains.memory_used()

    def check(self) -> None:
        """Assert that every place up to the highest is in a chain or free. O(capacity)."""
        chained = [place for chain in self._chains.check() for place in chain]
        assert len(chained) == self._length <= self._highest <= self.capacity
        free, place = [], self._freed
        while place:
            free.append(place)
            place = int(self._chains.tuples["next"][place])
            assert len(free) <= self.capacity
        assert sorted(chained + free) == list(range(1, self._highest + 1))

    def _release(self, places: Int64Array) -> Int64Array:
        ids = self._chains.tuples["id"][places]
        self._freed = _free(self._chains.tuples, self._freed, places)
        self._length -= len(places)
        return np.where(ids < 0, ~ids, ids)


@kernel
def _allocate(tuples: Tuples, freed: int, highest: int, places: Int64Array) -> Any:
    """Find places, freed ones first; what is freed and highest after that."""
    place = np.int64(freed)
    for i in range(len(places)):
        if place:
            places[i] = place
            place = np.int64(tuples[place].next)
        else:
            highest += 1
            places[i] = highest
    return place, highest


@kernel
def _free(tuples: Tuples, freed: int, places: Int64Array) -> Any:
    """Link places to what is freed; what is freed after that."""
    place = np.int64(freed)
    for i in range(len(places)):
        tuples[places[i]].next = place
        place = places[i]
    return place
