"""The partition-based join: tuples wait in the slot of their page until it is full enough, or are looked up at once."""

from __future__ import annotations

from spark_jobs.joins.semi_stream.base import NO_TUPLES, Int64Array, Relation, Step
from spark_jobs.joins.semi_stream.hybrid_join import HybridJoin
from spark_jobs.joins.semi_stream.lookup_position import FullestSlot

# While no more tuples than this come during a lookup, looking them up one by one keeps up with the stream.
_SLOW_ARRIVALS = 1


class PartitionWaitJoin(HybridJoin):
    """The partition-based join (Chakraborty, Singh, IPDPS 2009; 000 §2, 003 §2).

        stream ---> [ wait buffer: a slot for each page of R ] ---> joined
                         |               ^           |
          slot full enough,              |           | stream slow: a tuple that is alone in its slot
          or the buffer full:            |           v
          the page of the fullest slot   |        lookup by index
                         v               |
                         R ---> [ disk buffer ]

    A page is read when as many tuples wait for it as the threshold says, or when the whole buffer is full: then that of
    the fullest slot. Else the stream is awaited; and while it is slow, no more than one tuple coming during a step, the
    join switches to INLJ.

    Tuples of rare pages wait without bound while the stream is fast (000 §2: longer than in MESHJOIN; 003 §2: not
    bounded): their slot never fills, and there is always a fuller one. They hold their places, so that in the long run
    half a threshold of tuples waits for every page, popular or not. This is the one algorithm here of which no number
    of steps settles every tuple, unless the stream pauses: a slow stream, and `finish`, settle all.

    Where it departs: waiting tuples lie in one multimap by page, not in slots of fixed size, so that no slot overflows
    while others are empty. While the stream is slow, a page that several tuples wait for is read, where the authors'
    switch looks up each of them. Their cache of pages is SSIJ's, and left out here. As neither paper gives the
    threshold, the default is what fills the buffer if all slots are filled evenly.

    Args:
        relation: R.
        memory_bytes: split as by HybridJoin, after 8 bytes a page.
        threshold: tuples for which a page is read, at least 1; None for 1 + 2 h / k, where memory holds h tuples and R
            has k pages.
        blocking: whether a step waits for the stream while it is fast and no slot is full enough. `finish` never waits.

    Attributes:
        threshold: as above.

    Raises:
        ValueError: the threshold is below 1.
        MemoryBudgetError: the budget does not hold a page, the counts of all slots, and one stream tuple.
    """

    def __init__(
        self, relation: Relation, memory_bytes: int, *, threshold: int | None = None, blocking: bool = True
    ) -> None:
        self._slots = FullestSlot(relation.page_count)
        super().__init__(relation, memory_bytes, self._slots)
        if threshold is not None and threshold < 1:
            raise ValueError(f"a page is read when a number of tuples wait for it, at least 1, not {threshold}")
        self.threshold = threshold or 1 + 2 * self.capacity // max(1, relation.page_count)
        self.blocking = blocking
        self._arrivals = 0  # since the last step

    @property
    def reads_next(self) -> bool:
        """Whether the next step reads a page or looks a tuple up, and does not wait for the stream."""
        return self.pending > 0 and (self._is_due() or not self._may_wait())

    def _take_in(self, keys: Int64Array, pages: Int64Array, ids: Int64Array) -> None:
        super()._take_in(keys, pages, ids)
        self._arrivals += len(keys)

    def _step(self) -> Step:
        may_wait = self._may_wait()
        self._arrivals = 0
        if self._is_due():
            return super()._step()
        if may_wait:
            return Step(None, NO_TUPLES)
        return super()._step() if self._slots.fullest > 1 else self._look_up_oldest()

    def _is_due(self) -> bool:
        return self._slots.fullest >= self.threshold or not self.room

    def _may_wait(self) -> bool:
        return self.blocking and not self._finishing and self._arrivals > _SLOW_ARRIVALS

    def _look_up_oldest(self) -> Step:
        key, page, id_ = self._waiting.first_to_leave()
        self._disk_buffer = None
        found = self._disk_buffer = self._relation.lookup(key, id_)
        self._position.given_up(page)
        self._waiting.take_oldest(1)
        return self._settled_by_lookup(found, key, id_)
