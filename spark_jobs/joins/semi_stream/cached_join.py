"""A front stage before any semi-stream join: CMESHJOIN, CHYBRIDJOIN, CINLJ, and what else can be combined."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.joins.semi_stream.admission_threshold import AdmissionThreshold
from spark_jobs.joins.semi_stream.base import NO_TUPLES, Int64Array, Matches, Page, Relation, SemiStreamJoin, Step
from spark_jobs.joins.semi_stream.front_stage import FrontStage
from spark_jobs.joins.structures.stream_buffer import StreamBuffer, TupleColumns

BackStage = Callable[[Relation, int], SemiStreamJoin]

# The best share of memory for the front stage in the papers' experiments (003 §5.4, Fig. 9a).
_FRONT_SHARE = 0.15
# Hits wait for the next step, and misses until the back stage has room, in buffers about as small as the
# papers' stream buffers (0.05 MB).
_MOST_BUFFERED = 4096
_FEWEST_BUFFERED = 8
_HIT_BYTES = 16
_BUFFERS_SHARE = 16
# Tuples move on when there is room for many, for a few at a time would cost more than they bring: from the stream
# when this part of the buffers is free,
_LEAST_ROOM = 2
# and to the back stage when it has room for this part of the buffers, or for this part of what it holds already.
_LEAST_OF_BUFFERS = 4
_LEAST_OF_BACK_STAGE = 64


class CachedJoin(SemiStreamJoin):
    """A front stage and a back stage in one process (003 §3.1 with MESHJOIN, §3.2 with HYBRIDJOIN, §3.3 with INLJ).

    `push` probes the front stage; hits are settled by the next step, misses go on to the back stage
    as soon as that has room. What the back stage finds is offered to the front stage.

    Args:
        relation: R.
        memory_bytes: split into front stage and back stage.
        back_stage: makes the back stage, of relation and memory.
        front_share: the front stage's part of the memory, between 0 and 1.
        threshold: the front stage's; None for one of its own.

    Raises:
        MemoryBudgetError: one of the two parts is too small.
    """

    def __init__(
        self,
        relation: Relation,
        memory_bytes: int,
        back_stage: BackStage,
        front_share: float = _FRONT_SHARE,
        threshold: AdmissionThreshold | None = None,
    ) -> None:
        super().__init__()
        self._relation = relation
        front_bytes = int(memory_bytes * front_share)
        buffered_bytes = _HIT_BYTES + StreamBuffer.bytes_for(1)
        fitting = front_bytes // (_BUFFERS_SHARE * buffered_bytes)
        buffered = max(_FEWEST_BUFFERED, min(_MOST_BUFFERED, fitting))
        slots_bytes = front_bytes - buffered * buffered_bytes
        try:
            capacity = FrontStage.capacity_within(slots_bytes, relation.tuple_bytes)
            self._make_front_stage = partial(FrontStage, capacity, threshold)
            self.front_stage = self._make_front_stage()
            self.back_stage = back_stage(relation, memory_bytes - front_bytes)
        except MemoryBudgetError as error:
            raise MemoryBudgetError(
                f"{memory_bytes:,} bytes are too few for a join with a front stage, which gets "
                f"{front_share:.0%} of them: {error}"
            ) from error
        self._hit_ids: Int64Array = np.empty(buffered, np.int64)
        self._hit_slots: Int64Array = np.empty(buffered, np.int64)
        self._hits = 0
        self._misses = StreamBuffer(buffered)
        self._many = buffered // _LEAST_OF_BUFFERS
        self._cached: Page | None = None
        self._accepted: list[tuple[Any, Int64Array]] = []
        self._found: Matches | None = None  # by the last step of the back stage
        self.statistics.extra["front_stage_hits"] = 0

    @property
    def room(self) -> int:
        """How many stream tuples `push` takes now, be they hits or misses; none while the buffers are rather full."""
        free = self._misses.capacity - max(self._hits, len(self._misses))
        return free if _LEAST_ROOM * free >= self._misses.capacity else 0

    @property
    def pending(self) -> int:
        """How many stream tuples wait: hits for the next step, misses in the back stage or for room there."""
        return self._hits + len(self._misses) + self.back_stage.pending

    @property
    def reads_next(self) -> bool:
        """Whether no hits wait, so that the next step is the back stage's, and that one reads."""
        return not self._hits and self.back_stage.reads_next

    def memory_used(self) -> int:
        """Bytes of both stages, of the cached tuples of R, and of both buffers."""
        buffers = self._hit_ids.nbytes + self._hit_slots.nbytes + self._misses.memory_used()
        front = self.front_stage
        tuples = (front.hot_set.slot_count + front.staged) * self._relation.tuple_bytes
        return front.memory_used() + tuples + self.back_stage.memory_used() + buffers

    def check(self) -> None:
        """Assert the invariants of both stages, and that the cached tuples are those of the hot set. O(memory)."""
        self.front_stage.check()
        self.back_stage.check()
        cached = NO_TUPLES if self._cached is None else self._cached.keys
        assert np.array_equal(cached, self.front_stage.hot_set.keys)
        assert sum(len(positions) for _, positions in self._accepted) == self.front_stage.staged
        assert (self._hit_slots[: self._hits] < self.front_stage.hot_set.slot_count).all()

    def _take_in(self, keys: Int64Array, pages: Int64Array, ids: Int64Array) -> None:
        (hit_slots, hit_ids), misses = self.front_stage.hot_set.part(keys, pages, ids)
        self.statistics.probes += len(keys)
        until = self._hits + len(hit_ids)
        self._hit_slots[self._hits : until] = hit_slots
        self._hit_ids[self._hits : until] = hit_ids
        self._hits = until
        self.front_stage.observe_slots(hit_slots)
        self._misses.append(TupleColumns(*misses))
        self._fill_back_stage()

    def _fill_back_stage(self) -> None:
        back_stage = self.back_stage
        room, waiting = back_stage.room, len(self._misses)
        few = room < self._many and room < waiting and room * _LEAST_OF_BACK_STAGE < back_stage.pending
        # One that reads nothing as yet may wait for the last few of a chunk.
        if few and back_stage.reads_next:
            return
        if room and waiting:
            back_stage.push(*self._misses.take_oldest(min(waiting, room)))

    def _step(self) -> Step:
        if self._hits and self._cached is not None:
            return self._settle_hits(self._cached)
        self._learn()
        step = self._step_of_back_stage()
        self._found = step.matches
        self._fill_back_stage()
        return step

    def _learn(self) -> None:
        """Take what the last step found into the front stage: now that it is handed out, no failure can lose it.

        After a failure the front stage begins anew, for it may have accepted tuples that could not be copied.
        """
        found, self._found = self._found, None
        try:
            if found is not None:
                self._offer(found)
            if self.front_stage.publication_due:
                self._publish()
        except BaseException:
            self.front_stage = self._make_front_stage()
            self._cached = None
            self._accepted.clear()
            raise

    def _settle_hits(self, cached: Page) -> Step:
        matches = Matches(self._hit_ids[: self._hits].copy(), self._hit_slots[: self._hits].copy(), cached)
        self.statistics.extra["front_stage_hits"] += self._hits
        self._hits = 0
        return Step(matches, NO_TUPLES)

    def _step_of_back_stage(self) -> Step:
        counts = self.back_stage.statistics
        probes = counts.probes
        step = self.back_stage.advance(ending=self._finishing)
        self.statistics.pages_read = counts.pages_read
        self.statistics.lookups = counts.lookups
        self.statistics.bytes_read = counts.bytes_read
        self.statistics.probes += counts.probes - probes
        return step

    def _offer(self, matches: Matches) -> None:
        """Frequency detection (003 Algorithm 1, lines 16 to 22)."""
        accepted = self.front_stage.offer_rows(matches.page.keys, matches.rows)
        if accepted.size:
            rows = self._relation.gather([(matches.page.rows, accepted)])
            self._accepted.append((rows, np.arange(len(accepted))))

    def _publish(self) -> None:
        """Put a new version of the cache in force; no hits wait here, whose slots it would change."""
        publication = self.front_stage.publish()
        if publication is not None:
            former = [] if self._cached is None else [(self._cached.rows, np.arange(len(self._cached.keys)))]
            pool = self._relation.gather([*former, *self._accepted])
            rows = self._relation.gather([(pool, publication.sources)])
            hot_set = publication.hot_set
            self._cached = Page(hot_set.keys, rows, hot_set.slot_count * self._relation.tuple_bytes)
        self._accepted.clear()

    def _give_up(self, count: int) -> Int64Array:
        """Shed the back stage's costliest first, then what waits for it; hits, which cost nothing more, last."""
        ids = self.back_stage.shed(count)
        misses = self._misses.take_newest(count - len(ids)).ids
        hits = count - len(ids) - len(misses)
        self._hits -= hits
        self._fill_back_stage()
        return np.concatenate([ids, misses, self._hit_ids[self._hits : self._hits + hits]])
