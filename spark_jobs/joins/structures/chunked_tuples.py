"""Stream tuples in chunks, found by key and expired chunk by chunk: H_S and Q of MESHJOIN (000 §3, 003 §3.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.structures.key_chains import KeyChains

Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]

_CHUNK_BYTES = 8
# Columns of a chunk: its tuples, and the page of R that was the first it was joined with.
_LENGTH, _FIRST_PAGE = 0, 1
# In place of the id of a tuple that has been settled, but keeps its place until its chunk expires.
_JOINED, _GIVEN_UP = -1, -2


class ChunkedTuples:
    """A ring of places in order of arrival, cut into chunks; 25 bytes a tuple and 8 a chunk.

    A tuple that has been joined keeps its place until its chunk expires, as in the papers, but leaves
    its chain, so that nobody passes it again.

    Args:
        capacity: how many tuples it takes.
        most_chunks: how many chunks are told apart. Where there are more, tuples are added to the newest
            chunk, which then counts as begun with them.

    Attributes:
        unsettled: tuples neither joined nor given up nor expired.
    """

    def __init__(self, capacity: int, most_chunks: int) -> None:
        self.capacity = capacity
        self.unsettled = 0
        self._chains = KeyChains(capacity)
        # Tuple number n (counted from the first ever) is at place n modulo capacity, plus 1.
        self._arrived = 0
        self._expired = 0
        # Chunk number n is in row n modulo most_chunks.
        self._chunks: Int32Array = np.zeros((most_chunks, 2), np.int32)
        self._first_chunk = 0
        self._chunk_count = 0

    @staticmethod
    def bytes_for(capacity: int, most_chunks: int) -> int:
        """Memory of this capacity, in bytes."""
        return KeyChains.bytes_for(capacity) + most_chunks * _CHUNK_BYTES

    @property
    def room(self) -> int:
        """Free places."""
        return self.capacity - (self._arrived - self._expired)

    @property
    def oldest_first_page(self) -> int | None:
        """The page with which the oldest chunk began, None if there is no chunk."""
        if not self._chunk_count:
            return None
        return int(self._chunks[self._first_chunk % len(self._chunks), _FIRST_PAGE])

    def append(self, keys: Int64Array, ids: Int64Array, first_page: int) -> None:
        """Add a chunk of at least one tuple; there must be room. O(n).

        Args:
            keys: int64, shape (n,).
            ids: int64, shape (n,), at least 0.
            first_page: the page of R that is read next.
        """
        count = len(keys)
        self._chains.append(self._places(self._arrived, count), keys, ids)
        self._arrived += count
        self.unsettled += count
        if self._chunk_count < len(self._chunks):
            self._chunk_count += 1
            self._newest_chunk[_LENGTH] = 0
        self._newest_chunk[_LENGTH] += count
        self._newest_chunk[_FIRST_PAGE] = first_page

    def join(self, page_keys: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Join all tuples with the keys on a page of R. O(m + n).

        Args:
            page_keys: int64, shape (m,), distinct.

        Returns:
            ids and rows, int64, shape (n,) each: tuple ids[i] has the key page_keys[rows[i]].
        """
        places, rows = self._chains.take(page_keys)
        ids = self._ids[places]
        self._ids[places] = _JOINED
        kept = ids >= 0
        if not kept.all():
            ids, rows = ids[kept], rows[kept]
        self.unsettled -= len(ids)
        return ids, rows

    def expire_oldest(self) -> Int64Array:
        """Free the places of the oldest chunk. O(chunk).

        Returns:
            int64, shape (u,): ids of its tuples that were neither joined nor given up.
        """
        length = int(self._chunks[self._first_chunk % len(self._chunks), _LENGTH])
        self._first_chunk += 1
        self._chunk_count -= 1
        places = self._places(self._expired, length)
        self._expired += length
        ids = self._ids[places]
        self._chains.drop_oldest(places[ids != _JOINED])
        unmatched = ids[ids >= 0]
        self.unsettled -= len(unmatched)
        return unmatched

    def give_up_newest(self, count: int) -> Int64Array:
        """Settle the newest tuples unjoined; they keep their places until their chunks expire. O(capacity).

        Returns:
            int64, shape (min(count, unsettled),): their ids, newest first.
        """
        places = self._places(self._expired, self._arrived - self._expired)
        given_up = places[self._ids[places] >= 0][::-1][:count]
        ids = self._ids[given_up]
        self._ids[given_up] = _GIVEN_UP
        self.unsettled -= len(ids)
        return ids

    def memory_used(self) -> int:
        """Bytes of its arrays."""
        return self._chains.memory_used() + self._chunks.nbytes

    def check(self) -> None:
        """Assert that chunks and chains hold the tuples between the newest and the oldest. O(capacity)."""
        assert 0 <= self._expired <= self._arrived <= self._expired + self.capacity
        rows = (self._first_chunk + np.arange(self._chunk_count)) % len(self._chunks)
        assert (self._chunks[rows, _LENGTH] > 0).all()
        assert self._chunks[rows, _LENGTH].sum() == self._arrived - self._expired
        places = self._places(self._expired, self._arrived - self._expired)
        age = {place: number for number, place in enumerate(places.tolist())}
        chains = self._chains.check()
        for chain in chains:
            assert [age[place] for place in chain] == sorted(age[place] for place in chain)
        chained = {place for chain in chains for place in chain}
        ids = self._ids[places]
        assert chained == set(places[ids != _JOINED].tolist())
        assert self.unsettled == np.count_nonzero(ids >= 0)

    @property
    def _ids(self) -> Int64Array:
        return self._chains.tuples["id"]

    @property
    def _newest_chunk(self) -> Int32Array:
        return self._chunks[(self._first_chunk + self._chunk_count - 1) % len(self._chunks)]

    def _places(self, first: int, count: int) -> Int64Array:
        return (first + np.arange(count)) % self.capacity + 1
