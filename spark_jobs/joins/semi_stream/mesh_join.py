"""MESHJOIN: R is scanned in a cycle, and every stream tuple stays until it has seen all of it."""

from __future__ import annotations

import numpy as np

from spark_jobs.joins.memory_budget import tuples_within
from spark_jobs.joins.semi_stream.base import NO_TUPLES, Int64Array, Matches, Relation, SemiStreamJoin, Step
from spark_jobs.joins.semi_stream.cyclic_scan import CyclicScan
from spark_jobs.joins.structures.arrival_queue import ArrivalQueue
from spark_jobs.joins.structures.chunked_tuples import ChunkedTuples

# The stream buffer holds a chunk and as many tuples more as 0.05 MB did in the experiments of 003 (§3.1),
# or this part of the others, where that is less.
_STREAM_BUFFER = 2500
_STREAM_BUFFER_PART = 32


class MeshJoin(SemiStreamJoin):
    """MESHJOIN (000 §3, 003 §3.1): cyclic scan of R, hash multimap, queue of chunks.

        stream ---> [ stream buffer ] --- a chunk of w ---> [ hash multimap + queue of chunks ] ---> joined
                                                                 ^                  |
                                                  keys of a page |                  | oldest chunk, after a cycle
                                                          [ disk buffer ]           v
                                                                 ^              unmatched
                                                 R: page 0, 1, ..., k - 1, 0, ...

    One step: a chunk of w tuples leaves the stream buffer, the next page of R is read, each of its keys
    is probed among all tuples in memory, and the chunk that has now seen all of R expires. A tuple
    keeps its place in memory through the cycle, joined or not.

    Symbols of the papers: M = memory_bytes, b or v_P = relation.page_bytes, k = relation.page_count,
    h_S = capacity, w = h_S / k. Where k does not divide h_S some chunks are a tuple larger than others,
    so that a cycle takes in h_S tuples exactly.

    A tuple sees every page that R has when the tuple leaves the stream buffer, as it is when the scan
    comes to it; what is appended to R after that only if the scan comes to it before the cycle ends.

    Args:
        relation: R, in any order: the pages given to `push` are not used.
        memory_bytes: M, split into one page, the stream buffer, 8 bytes a chunk and 25 bytes a tuple.
        blocking: whether a step waits until the stream buffer holds w tuples, as in the papers.
            If not, it goes on with those that are there. `finish` never waits.

    Attributes:
        capacity: stream tuples that multimap and queue take.

    Raises:
        MemoryBudgetError: the budget does not hold a page and one stream tuple.
    """

    algorithm = "mesh_join"

    def __init__(self, relation: Relation, memory_bytes: int, *, blocking: bool = True) -> None:
        super().__init__()
        self.blocking = blocking
        self._scan = CyclicScan(relation, self.statistics)
        self.capacity = tuples_within(
            memory_bytes,
            relation.page_bytes,
            self._bytes_for,
            algorithm=self.algorithm,
            fixed=f"a page of R ({relation.page_bytes:,} bytes)",
        )
        self._buffer = ArrivalQueue(self._buffer_capacity(self.capacity))
        self._tuples = ChunkedTuples(self.capacity, self._most_chunks(self.capacity))

    @property
    def segment_pages(self) -> int:
        """Pages of R for which a chunk is taken in."""
        return 1

    @property
    def room(self) -> int:
        """How many stream tuples `push` takes now."""
        return self._buffer.capacity - len(self._buffer)

    @property
    def pending(self) -> int:
        """How many stream tuples are neither joined nor known to have no match."""
        return len(self._buffer) + self._tuples.unsettled

    @property
    def reads_next(self) -> bool:
        """Whether the next step reads a page; it does not while a blocking join waits for its chunk."""
        return not self._waits()

    def memory_used(self) -> int:
        """Bytes of stream buffer, multimap and queue, and of the page in the disk buffer."""
        return self._buffer.memory_used() + self._tuples.memory_used() + self._scan.memory_used()

    def check(self) -> None:
        """Assert the invariants of stream buffer, multimap and queue. O(capacity)."""
        self._buffer.check()
        self._tuples.check()

    def _take_in(self, keys: Int64Array, pages: Int64Array, ids: Int64Array) -> None:
        self._buffer.append(keys, ids)

    def _step(self) -> Step:
        if self._waits():
            return Step(None, NO_TUPLES)
        if self._segment_begins():
            self._load_chunk()
        page = self._scan.read()
        ids, rows = self._tuples.join(page.keys)
        return Step(Matches(ids, rows, page), self._expire())

    def _waits(self) -> bool:
        """Whether a chunk is due that the stream buffer does not hold yet, and nobody says to go on without."""
        if not self.blocking or self._finishing or not self._segment_begins():
            return False
        return len(self._buffer) < self._wanted()

    def _segment_begins(self) -> bool:
        """Whether a chunk is due; always if nothing waits in memory, for R would be read in vain."""
        return self._scan.next_page % self.segment_pages == 0 or not self._tuples.unsettled

    def _wanted(self) -> int:
        """Tuples of the chunk: w, the part of the capacity that this segment is of R, or what there is room for."""
        begin, pages = self._scan.next_page, self._scan.page_count
        end = min(pages, (begin // self.segment_pages + 1) * self.segment_pages)
        size = end * self.capacity // pages - begin * self.capacity // pages
        return min(max(1, size), self._buffer.capacity, self._tuples.room)

    def _load_chunk(self) -> None:
        keys, ids = self._buffer.oldest(self._wanted())
        if len(keys):
            self._buffer.drop_oldest(len(keys))
            self._tuples.append(keys, ids, self._scan.next_page)

    def _expire(self) -> Int64Array:
        unmatched = NO_TUPLES
        while (begun := self._tuples.oldest_first_page) is not None and self._scan.has_come_round_to(begun):
            unmatched = np.concatenate([unmatched, self._tuples.expire_oldest()])
        return unmatched

    def _give_up(self, count: int) -> Int64Array:
        """Shed first those in the stream buffer, which have all of R before them, then the newest chunks."""
        _, ids = self._buffer.oldest(count)
        self._buffer.drop_oldest(len(ids))
        return np.concatenate([ids, self._tuples.give_up_newest(count - len(ids))])

    def _segments(self) -> int:
        return -(-self._scan.page_count // self.segment_pages)

    def _most_chunks(self, capacity: int) -> int:
        return min(capacity, self._segments())

    def _buffer_capacity(self, capacity: int) -> int:
        chunk = -(-capacity // self._segments())
        return chunk + min(_STREAM_BUFFER, capacity // _STREAM_BUFFER_PART)

    def _bytes_for(self, capacity: int) -> int:
        tuples = ChunkedTuples.bytes_for(capacity, self._most_chunks(capacity))
        return tuples + ArrivalQueue.bytes_for(self._buffer_capacity(capacity))
