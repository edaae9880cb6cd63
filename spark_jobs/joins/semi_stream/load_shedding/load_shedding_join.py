"""Load shedding around any semi-stream join: what the join can't keep up with goes to a destination, and comes back."""

from __future__ import annotations

import numpy as np

from spark_jobs.joins.semi_stream.base import Int64Array, SemiStreamJoin, Step
from spark_jobs.joins.semi_stream.load_shedding.destination import Destination
from spark_jobs.joins.semi_stream.load_shedding.policies import SheddingPolicy, TuplesOf
from spark_jobs.joins.structures.stream_buffer import StreamBuffer, TupleColumns

# The number of iterations over which w is averaged.
_ITERATIONS = 16


class LoadSheddingJoin(SemiStreamJoin):
    """Load shedding (003 §4.1, Algorithm 2) around a join.

        stream ---> [ stream buffer ] ---> join ---> joined
                        |      ^            |
                 upfront|      |slow again  |considered
                        v      |            v
                     [         destination         ]

    Before each access to R the join is filled from the stream buffer. If more than w tuples are left
    over, all but w of them are shed: the join's own oldest in their place, where the policy says so. If
    fewer are left, up to 2w come back from the destination. w is the number of tuples that an
    access settles. The paper compares before it fills, hence with 2w, the w that the join
    takes included; it means the same, but here memory that is still empty is filled first.

    Symbols of the paper: SB_1 = the stream buffer, w_B = w, Q and H_S = the join's memory.

    Where it departs from the paper: w is the mean of the last iterations and not the last alone (the paper
    allows for it), and nothing comes back before as many tuples have been settled since the last time
    of shedding as were waiting then. Under skew one page in a hundred settles more than all others
    together. After each such page the paper's rule would take w tuples back that it has just shed.

    Tuples at the destination are the statistics' `shed`; those that came back are pending again. `extra`
    counts how many went there and came back, as "shed" and "reloaded". `finish` leaves what is there:
    whoever wants it joined then takes it from there, and pushes it anew. Should the destination fail to
    store tuples, they are kept, and stored before any others are.

    Args:
        join: new and empty, with the policy's lookup position.
        policy: what is shed.
        destination: where it goes.
        tuples_of: finds tuples that are shed by their ids: keys and pages stay with the caller, as ever.
        buffer_capacity: tuples that the stream buffer takes; the stream's longest step is to fit.
    """

    def __init__(
        self,
        join: SemiStreamJoin,
        policy: SheddingPolicy,
        destination: Destination,
        tuples_of: TuplesOf,
        buffer_capacity: int,
    ) -> None:
        super().__init__()
        self.join = join
        self.policy = policy
        self._destination = destination
        self._tuples_of = tuples_of
        self._buffer = StreamBuffer(buffer_capacity)
        self._unstored: TupleColumns | None = None  # what the destination has failed to store
        self._settled_by_access = float(buffer_capacity)  # w
        self._accesses = 0
        self._until_calm = 0  # tuples to settle without shedding until the overload is over
        self.statistics.extra.update(join.statistics.extra, shed=0, reloaded=0)

    @property
    def room(self) -> int:
        """How many stream tuples `push` takes now."""
        return self._buffer.capacity - len(self._buffer)

    @property
    def pending(self) -> int:
        """How many stream tuples wait in the stream buffer and in the join."""
        return len(self._buffer) + self.join.pending

    @property
    def overloaded(self) -> bool:
        """Whether tuples have been shed lately, so that none come back."""
        return self._until_calm > 0

    @property
    def reads_next(self) -> bool:
        """Whether the next step accesses R."""
        return self.join.reads_next

    def memory_used(self) -> int:
        """Bytes of the join and of the stream buffer."""
        return self.join.memory_used() + self._buffer.memory_used()

    def check(self) -> None:
        """Assert the invariants of the join, and that what went to the destination is there or came back."""
        self.join.check()
        extra = self.statistics.extra
        unstored = 0 if self._unstored is None else len(self._unstored.ids)
        assert extra["shed"] - extra["reloaded"] == len(self._destination) + unstored

    def _take_in(self, keys: Int64Array, pages: Int64Array, ids: Int64Array) -> None:
        self._buffer.append(TupleColumns(keys, pages, ids))

    def _give_up(self, count: int) -> Int64Array:
        """Shed at the caller's word: what the join gives up, then what came last."""
        ids = self.join.shed(count)
        return np.concatenate([ids, self._buffer.take_newest(count - len(ids)).ids])

    def _step(self) -> Step:
        self._fill()
        if not self._finishing:
            self._shed_or_reload()
        step = self._step_of_join()
        if not self.pending and not self._finishing:
            self._shed_or_reload()
        return step

    def _fill(self) -> None:
        """Hand over what the join has room for."""
        self.join.push(*self._buffer.take_oldest(self.join.room))

    def _shed_or_reload(self) -> None:
        settled_by_access = max(1, round(self._settled_by_access))
        left = len(self._buffer)
        if left > settled_by_access:
            if self.join.reads_next:
                self._shed_to_destination(left - settled_by_access)
        elif not self.overloaded:
            self._reload(min(2 * settled_by_access, self.join.room + settled_by_access - left, self.room))

    def _shed_to_destination(self, count: int) -> None:
        self._store()
        tuples = self._unstored = self.policy.shed(self.join, self._buffer, self._tuples_of, count)
        self.statistics.shed += len(tuples.ids)
        self.statistics.extra["shed"] += len(tuples.ids)
        self._store()
        self._fill()
        self._until_calm = self.join.pending
        self.policy.position.overloaded = True

    def _store(self) -> None:
        """Hand what was shed over to the destination; it stays here if that fails."""
        if self._unstored is not None:
            self._destination.put(self._unstored)
            self._unstored = None

    def _reload(self, count: int) -> None:
        self._store()
        tuples = self._destination.take(count)
        self._buffer.append(tuples)
        self.statistics.shed -= len(tuples.ids)
        self.statistics.extra["reloaded"] += len(tuples.ids)
        self._fill()

    def _step_of_join(self) -> Step:
        counts = self.join.statistics
        seeks = counts.seeks
        step = self.join.advance(ending=self._finishing)
        settled = len(step.unmatched) + (len(step.matches.ids) if step.matches else 0)
        if counts.seeks > seeks:
            self._accesses += 1
            self._settled_by_access += (settled - self._settled_by_access) / min(self._accesses, _ITERATIONS)
        waits_for_more = not settled and counts.seeks == seeks
        self._until_calm = 0 if waits_for_more or not self.pending else max(0, self._until_calm - settled)
        self.policy.position.overloaded = self.overloaded
        self.statistics.pages_read, self.statistics.lookups = counts.pages_read, counts.lookups
        self.statistics.bytes_read = counts.bytes_read
        self.statistics.probes = counts.probes
        self.statistics.extra.update(counts.extra)
        return step
