"""Runs a join on a stream and measures it: on a virtual clock that R and the processor charge, or on the real one."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from spark_jobs.errors import WorkloadError
from spark_jobs.experiments.numbered_relation import NumberedRelation
from spark_jobs.experiments.semi_stream.key_streams import Stream, StreamBlocks
from spark_jobs.experiments.semi_stream.run_measurement import FloatArray, Measurement, WaitingTuples, WorkCharge
from spark_jobs.experiments.virtual_relation import VirtualClock
from spark_jobs.joins.semi_stream.base import SemiStreamJoin, Step
from spark_jobs.joins.semi_stream.theory.setting import ProcessorCosts
from spark_jobs.workload.bursts import Arrivals, ArrivalSchedule

Clock = Callable[[], float]

# Differences of times are not exact: a shorter wait might end just before what it waits for, again and again.
_SHORTEST_WAIT = 1e-9


class JoinRun:
    """A join, its stream and the clock of its work; its subclasses say when the stream's tuples come."""

    def __init__(
        self,
        join: SemiStreamJoin,
        relation: NumberedRelation,
        stream: Stream,
        clock: Clock,
        processor: ProcessorCosts | None,
    ) -> None:
        if processor is not None and not isinstance(clock, VirtualClock):
            raise WorkloadError("processor costs can be charged to a VirtualClock only; give None on a real clock")
        self.join = join
        self._blocks = StreamBlocks(stream, relation)
        self.clock = clock
        self._work_charge = (
            WorkCharge(join, processor, clock) if processor is not None and isinstance(clock, VirtualClock) else None
        )
        self._waiting = WaitingTuples(columns=2)
        self.worked = 0.0
        self.begin()

    @property
    def settled(self) -> int:
        """Stream tuples settled since the run began."""
        counts = self.join.statistics
        return counts.matched + counts.unmatched

    def draw_from(self, stream: Stream) -> None:
        """Go on with another stream, because it or R has changed."""
        self._blocks.draw_from(stream)

    def begin(self) -> None:
        """Begin a measurement: all sums are zero again."""
        self._processing = self.waited = 0.0
        self._queue_sum = self._steps = 0
        self._counts_before = self._counts()

    def _counts(self) -> list[int]:
        counts = self.join.statistics
        hits = counts.extra.get("front_stage_hits", 0)
        reads = [counts.pages_read, counts.lookups, counts.bytes_read, counts.probes]
        return [self.settled, *reads, hits, counts.shed]

    def measurement(self, seconds: float) -> Measurement:
        """What has been measured in the seconds since it began."""
        deltas = [now - before for now, before in zip(self._counts(), self._counts_before, strict=True)]
        settled, pages_read, lookups, bytes_read, probes, hits, shed = deltas
        return Measurement(
            settled=settled,
            seconds=seconds,
            pages_read=pages_read,
            lookups=lookups,
            bytes_read=bytes_read,
            probes=probes,
            front_stage_hits=hits,
            shed=shed,
            mean_processing=self._processing / settled,
            mean_waiting=self.waited / settled,
            mean_queue=self._queue_sum / max(1, self._steps),
        )

    def push(self, count: int, waited: float | FloatArray = 0.0) -> int:
        """Let the join take up to `count` tuples that have waited this long outside; how many it took."""
        keys, pages = self._blocks.take(count)
        if not isinstance(waited, float):
            waited = waited[: len(keys)]
        ids = self._waiting.enter(len(keys), (self.worked, waited))
        started = self.clock()
        self.join.push(keys, pages, ids)
        self.worked += self.clock() - started
        return len(keys)

    def advance(self) -> int:
        """One step of the join, and the processor's part of it; how many tuples it settled."""
        self._queue_sum += self.join.pending
        self._steps += 1
        started = self.clock()
        step = self.join.advance()
        if self._work_charge is not None:
            self._work_charge.charge()
        self.worked += self.clock() - started
        return self.settle(step)

    def settle(self, step: Step) -> int:
        """Take note of what a step settled; how many tuples it was."""
        settled = 0
        for ids in (None if step.matches is None else step.matches.ids, step.unmatched):
            if ids is not None and len(ids):
                pushed, waited = self._waiting.leave(ids)
                self._processing += len(ids) * self.worked - pushed
                self.waited += waited
                settled += len(ids)
        return settled


class SaturatedRun(JoinRun):
    """A run of a join whose stream never lets it wait; measured as often as one likes.

    Only the join's own time counts, not that of drawing the stream or of measuring, which matters on a real clock.
    """

    def measure(self, tuples: int) -> Measurement:
        """Go on until at least this many more stream tuples are settled."""
        self.begin()
        until, started = self.settled + tuples, self.worked
        join = self.join
        while self.settled < until:
            while room := join.room:
                self.push(room)
            self.advance()
        return self.measurement(self.worked - started)


class ArrivalsRun(JoinRun):
    """A run of a join whose stream tuples come at their own times; arguments as of `measure_with_arrivals`."""

    def __init__(
        self,
        join: SemiStreamJoin,
        relation: NumberedRelation,
        stream: Stream,
        arrivals: Arrivals,
        clock: Clock,
        processor: ProcessorCosts | None,
        most_pending: int | None = None,
        chunk: int = 1,
    ) -> None:
        super().__init__(join, relation, stream, clock, processor)
        self._schedule = ArrivalSchedule(arrivals)
        self._most_pending = most_pending
        self._chunk = chunk
        self._empty_room = join.room
        self._outside: FloatArray = np.empty(0)
        self._started = clock()

    def measure(self, tuples: int) -> Measurement:
        """Go on until at least this many more stream tuples are settled."""
        self.begin()
        until, started = self.settled + tuples, self._elapsed
        while self.settled < until:
            pushed = self._take_in_what_came()
            accesses = self.join.statistics.seeks
            settled = self.advance() if self.join.pending else 0
            if not (pushed or settled or self.join.statistics.seeks > accesses):
                self._idle()
        return self.measurement(self._elapsed - started)

    @property
    def _elapsed(self) -> float:
        return self.clock() - self._started

    @property
    def _idle_seconds(self) -> float:
        """Time in which the join did not work, since the run began."""
        return self._elapsed - self.worked

    def _take_in_what_came(self) -> int:
        """Push what has come by now, as far as there is room."""
        came = self._schedule.due(self._elapsed)
        if len(came):
            self._outside = np.concatenate([self._outside, came])
        taken = 0
        while count := self._takes_now():
            # The idle seconds until it leaves are added when it does; those before its coming are none of its.
            waited = self._elapsed - self._outside[:count] - self._idle_seconds
            pushed = self.push(count, waited)
            self._outside = self._outside[pushed:]
            taken += pushed
        return taken

    def _takes_now(self) -> int:
        count = min(self.join.room, len(self._outside))
        return count if self._most_pending is None else max(0, min(count, self._most_pending - self.join.pending))

    def settle(self, step: Step) -> int:
        """The same; a tuple has also waited while the join stood still."""
        settled = super().settle(step)
        self.waited += settled * self._idle_seconds
        return settled

    def _idle(self) -> None:
        """Let time pass until the join has its chunk, or until the next stream tuple comes."""
        missing = max(1, self._chunk - (self._empty_room - self.join.room))
        wait = max(self._schedule.next_due(missing) - self._elapsed, _SHORTEST_WAIT)
        if isinstance(self.clock, VirtualClock):
            self.clock.advance(wait)
        else:
            time.sleep(wait)


def measure_saturated(
    join: SemiStreamJoin,
    relation: NumberedRelation,
    stream: Stream,
    clock: Clock,
    processor: ProcessorCosts | None,
    *,
    warm_up: int,
    measured: int,
) -> Measurement:
    """Measure a join whose stream is faster than it: memory is full again before every step.

    Args:
        join: the operator, new.
        relation: its R, which charges `clock` if that is virtual.
        stream: draws n keys.
        clock: a VirtualClock, or `time.perf_counter`.
        processor: charged on a virtual clock; None where time passes by itself, or where it costs nothing.
        warm_up: stream tuples settled before measuring begins.
        measured: stream tuples to be settled after that, at least.
    """
    run = SaturatedRun(join, relation, stream, clock, processor)
    if warm_up:
        run.measure(warm_up)
    return run.measure(measured)


def measure_with_arrivals(
    join: SemiStreamJoin,
    relation: NumberedRelation,
    stream: Stream,
    arrivals: Arrivals,
    clock: Clock,
    processor: ProcessorCosts | None,
    *,
    warm_up: int,
    measured: int,
    most_pending: int | None = None,
    chunk: int = 1,
) -> Measurement:
    """Measure a join whose stream tuples come when `arrivals` says; those that find no room wait outside.

    Args:
        join: the operator, new.
        relation: its R.
        stream: draws n keys.
        arrivals: steady or bursty, see workload.bursts.
        clock: a VirtualClock, or `time.perf_counter`.
        processor: as for `measure_saturated`.
        warm_up: stream tuples settled before measuring begins.
        measured: stream tuples to be settled after that, at least.
        most_pending: stream tuples that the join takes at once, if fewer than it has room for; 1 makes INLJ work
            tuple by tuple, so that its backlog waits outside (000 §6.2.1).
        chunk: stream tuples for which a blocking MESHJOIN stands still, so that it is not asked at each of them.
    """
    run = ArrivalsRun(join, relation, stream, arrivals, clock, processor, most_pending, chunk)
    if warm_up:
        run.measure(warm_up)
    return run.measure(measured)
