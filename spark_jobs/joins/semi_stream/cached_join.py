"""A front stage before any semi-stream join: CHYBRIDJOIN, CINLJ, and what else can be combined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.joins.semi_stream.base import NO_TUPLES, Int64Array, Matches, Page, Relation, SemiStreamJoin, Step
from spark_jobs.joins.semi_stream.front_stage import FrontStage

BackStage = Callable[["CacheableRelation", int], SemiStreamJoin]

# The best share of memory for the front stage in the papers' experiments (003 §5.4, Fig. 9a).
_FRONT_SHARE = 0.15
# Hits wait for the next step in a buffer as small as the papers' stream buffers (0.05 MB).
_MOST_HITS = 4096
_HIT_BYTES = 16
_HITS_SHARE = 16


class CacheableRelation(Relation, Protocol):
    """R whose tuples can be kept one by one."""

    @property
    def tuple_bytes(self) -> int:
        """Memory that one tuple needs at most, in bytes (v_R of the papers)."""

    def gather(self, parts: Sequence[tuple[Any, Int64Array]]) -> Any:
        """Copy tuples out of pages.

        Args:
            parts: at least one (rows of a page, int64 positions in it).

        Returns:
            Rows of the relation's kind: those of the first part, then those of the second, and so on.
        """


class CachedJoin(SemiStreamJoin):
    """A front stage and a back stage in one process (003 §3.2 with HYBRIDJOIN, §3.3 with INLJ).

    `push` probes the front stage; hits are settled by the next step, misses go on to the back stage.
    What the back stage finds is offered to the front stage.

    Args:
        relation: R.
        memory_bytes: split into front stage and back stage.
        back_stage: makes the back stage, of relation and memory.
        front_share: the front stage's part of the memory, between 0 and 1.

    Raises:
        MemoryBudgetError: one of the two parts is too small.
    """

    def __init__(
        self,
        relation: CacheableRelation,
        memory_bytes: int,
        back_stage: BackStage,
        front_share: float = _FRONT_SHARE,
    ) -> None:
        super().__init__()
        self._relation = relation
        front_bytes = int(memory_bytes * front_share)
        hits = max(1, min(_MOST_HITS, front_bytes // (_HITS_SHARE * _HIT_BYTES)))
        try:
            self.front_stage = FrontStage(front_bytes - hits * _HIT_BYTES, relation.tuple_bytes)
            self.back_stage = back_stage(relation, memory_bytes - front_bytes)
        except MemoryBudgetError as error:
            raise MemoryBudgetError(
                f"{memory_bytes:,} bytes are too few for a join with a front stage, which gets "
                f"{front_share:.0%} of them: {error}"
            ) from error
        self._hit_ids: Int64Array = np.empty(hits, np.int64)
        self._hit_slots: Int64Array = np.empty(hits, np.int64)
        self._hits = 0
        self._cached: Page | None = None
        self._accepted: list[tuple[Any, Int64Array]] = []
        self._since_publication = 0
        self.statistics.extra["front_stage_hits"] = 0

    @property
    def room(self) -> int:
        """How many stream tuples `push` takes now, be they hits or misses."""
        return min(self.back_stage.room, len(self._hit_ids) - self._hits)

    @property
    def pending(self) -> int:
        """How many stream tuples wait: hits for the next step, misses in the back stage."""
        return self._hits + self.back_stage.pending

    def memory_used(self) -> int:
        """Bytes of both stages, of the cached tuples of R, and of the waiting hits."""
        hits = self._hit_ids.nbytes + self._hit_slots.nbytes
        return self.front_stage.memory_used() + self.back_stage.memory_used() + hits

    def check(self) -> None:
        """Assert the invariants of both stages, and that the cached tuples are those of the hot set. O(memory)."""
        self.front_stage.check()
        self.back_stage.check()
        cached = NO_TUPLES if self._cached is None else self._cached.keys
        assert np.array_equal(cached, self.front_stage.hot_set.keys)
        assert sum(len(positions) for _, positions in self._accepted) == self.front_stage.staged
        assert (self._hit_slots[: self._hits] < self.front_stage.hot_set.slot_count).all()

    def _take_in(self, keys: Int64Array, pages: Int64Array, ids: Int64Array) -> None:
        slots = self.front_stage.hot_set.probe(keys)
        self.statistics.probes += len(keys)
        self._since_publication += len(keys)
        hit = slots >= 0
        hits = slots[hit]
        until = self._hits + len(hits)
        self._hit_slots[self._hits : until] = hits
        self._hit_ids[self._hits : until] = ids[hit]
        self._hits = until
        self.front_stage.observe_slots(hits)
        missed = ~hit
        self.back_stage.push(keys[missed], pages[missed], ids[missed])

    def _step(self) -> Step:
        if self._hits and self._cached is not None:
            return self._settle_hits(self._cached)
        step = self._step_of_back_stage()
        if step.matches is not None:
            self._offer(step.matches)
        if not self.front_stage.staging_room or self._since_publication >= self.front_stage.capacity:
            self._publish()
        return step

    def _settle_hits(self, cached: Page) -> Step:
        matches = Matches(self._hit_ids[: self._hits].copy(), self._hit_slots[: self._hits].copy(), cached)
        self.statistics.extra["front_stage_hits"] += self._hits
        self._hits = 0
        return Step(matches, NO_TUPLES)

    def _step_of_back_stage(self) -> Step:
        counts = self.back_stage.statistics
        probes = counts.probes
        step = self.back_stage.advance()
        self.statistics.pages_read = counts.pages_read
        self.statistics.lookups = counts.lookups
        self.statistics.bytes_read = counts.bytes_read
        self.statistics.probes += counts.probes - probes
        return step

    def _offer(self, matches: Matches) -> None:
        """Frequency detection (003 Algorithm 1, lines 16 to 22)."""
        frequencies = np.bincount(matches.rows, minlength=len(matches.page.keys))
        found = np.flatnonzero(frequencies)
        accepted = found[self.front_stage.offer(matches.page.keys[found], frequencies[found])]
        if accepted.size:
            rows = self._relation.gather([(matches.page.rows, accepted)])
            self._accepted.append((rows, np.arange(len(accepted))))

    def _publish(self) -> None:
        """Put a new version of the cache in force; no hits wait here, whose slots it would change."""
        self._since_publication = 0
        publication = self.front_stage.publish()
        if publication is not None:
            former = [] if self._cached is None else [(self._cached.rows, np.arange(len(self._cached.keys)))]
            pool = self._relation.gather([*former, *self._accepted])
            rows = self._relation.gather([(pool, publication.sources)])
            hot_set = publication.hot_set
            self._cached = Page(hot_set.keys, rows, hot_set.slot_count * self._relation.tuple_bytes)
        self._accepted.clear()

    def _give_up(self, count: int) -> Int64Array:
        """Shed the back stage's costliest first; hits, which cost nothing more, last."""
        ids = self.back_stage.shed(count)
        hits = count - len(ids)
        self._hits -= hits
        return np.concatenate([ids, self._hit_ids[self._hits : self._hits + hits]])
