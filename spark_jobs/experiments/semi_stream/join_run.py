"""What a run on a stream that never lets the join wait and one with arrivals share: times, counts, measurements."""

from __future__ import annotations

from collections.abc import Callable

from spark_jobs.errors import WorkloadError
from spark_jobs.experiments.numbered_relation import NumberedRelation
from spark_jobs.experiments.semi_stream.measurement import Measurement
from spark_jobs.experiments.semi_stream.stream_blocks import Stream, StreamBlocks
from spark_jobs.experiments.semi_stream.waiting_tuples import FloatArray, WaitingTuples
from spark_jobs.experiments.semi_stream.work_charge import WorkCharge
from spark_jobs.experiments.virtual_disk import VirtualClock
from spark_jobs.joins.semi_stream.base import SemiStreamJoin, Step
from spark_jobs.joins.semi_stream.theory.processor_costs import ProcessorCosts

Clock = Callable[[], float]


class JoinRun:
    """A join, its stream and the clock of its work; those who inherit say when the stream's tuples come."""

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
        """What has been measured since it began, in so many seconds."""
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
        """Let the join take up to `count` tuples that have waited so long outside; how many it took."""
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
