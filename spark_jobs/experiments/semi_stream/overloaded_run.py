"""Runs a join that sheds load on a stream that comes faster than it joins, and measures it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.experiments.numbered_relation import NumberedRelation
from spark_jobs.experiments.semi_stream.stream_blocks import Stream, StreamBlocks
from spark_jobs.experiments.semi_stream.work_charge import WorkCharge
from spark_jobs.experiments.virtual_disk import VirtualClock
from spark_jobs.joins.semi_stream.base import Int64Array, SemiStreamJoin
from spark_jobs.joins.semi_stream.load_shedding import Destination, LoadSheddingJoin, SheddingPolicy
from spark_jobs.joins.semi_stream.theory.processor_costs import ProcessorCosts
from spark_jobs.joins.structures.stream_buffer import TupleColumns

_BUFFER_TUPLES = 1 << 17


@dataclass(frozen=True)
class SheddingMeasurement:
    """What was measured of a join under load, warm-up left out.

    Attributes:
        arrived: stream tuples that came.
        settled: stream tuples joined, or found to have no match.
        front_stage_hits: those of them that a front stage settled.
        accesses: accesses to R.
        shed: stream tuples that went to the destination.
        reloaded: stream tuples that came back from it.
        seconds: of the run's clock.
    """

    arrived: int
    settled: int
    front_stage_hits: int
    accesses: int
    shed: int
    reloaded: int
    seconds: float

    @property
    def service_rate(self) -> float:
        """Settled tuples per second."""
        return self.settled / self.seconds

    @property
    def tuples_per_access(self) -> float:
        """Stream tuples that one access to R settled, w; those of the front stage not counted."""
        return (self.settled - self.front_stage_hits) / max(1, self.accesses)


class OverloadedRun:
    """A join that sheds, and a steady stream with as many tuples a second as one likes.

    An id holds its tuple's key, so that nothing has to be remembered of the tuples that wait.

    Args:
        join: new; made with the policy's lookup position, if it has one.
        policy: what is shed.
        destination: where it goes.
        relation: R, with keys 0 to row_count - 1; charges the clock.
        key_count: row_count.
        stream: draws keys.
        clock: of the run.
        processor: charged for the join's own work; None: it costs nothing.
    """

    def __init__(
        self,
        join: SemiStreamJoin,
        policy: SheddingPolicy,
        destination: Destination,
        relation: NumberedRelation,
        key_count: int,
        stream: Stream,
        clock: VirtualClock,
        processor: ProcessorCosts | None = None,
    ) -> None:
        self._relation = relation
        self._key_count = key_count
        self._blocks = StreamBlocks(stream, relation)
        self._clock = clock
        self._work_charge = None if processor is None else WorkCharge(join, processor, clock)
        self._inner = join
        self.join = LoadSheddingJoin(join, policy, destination, self._tuples_of, _BUFFER_TUPLES)
        self._arrived = 0
        self._due = 0.0

    def measure(self, rate: float, settle: int) -> SheddingMeasurement:
        """Let `rate` stream tuples a second come until at least so many more are settled."""
        before = self._counts()
        seconds = self._clock()
        until = before[1] + settle
        while self._settled < until:
            elapsed = self._clock()
            self.join.advance()
            if self._work_charge is not None:
                self._work_charge.charge()
            if not self.join.pending:
                self._clock.advance(1 / rate)
            self._due += (self._clock() - elapsed) * rate
            self._take_in_what_came()
        arrived, settled, hits, accesses, shed, reloaded = (
            now - then for now, then in zip(self._counts(), before, strict=True)
        )
        return SheddingMeasurement(arrived, settled, hits, accesses, shed, reloaded, self._clock() - seconds)

    @property
    def _settled(self) -> int:
        return self.join.statistics.matched + self.join.statistics.unmatched

    def _counts(self) -> list[int]:
        counts, hits = self.join.statistics, self._inner.statistics.extra.get("front_stage_hits", 0)
        return [self._arrived, self._settled, hits, counts.seeks, counts.extra["shed"], counts.extra["reloaded"]]

    def _take_in_what_came(self) -> None:
        while count := min(int(self._due), self.join.room):
            keys, pages = self._blocks.take(count)
            numbers = np.arange(self._arrived, self._arrived + len(keys))
            self.join.push(keys, pages, numbers * self._key_count + keys)
            self._arrived += len(keys)
            self._due -= len(keys)

    def _tuples_of(self, ids: Int64Array) -> TupleColumns:
        keys = ids % self._key_count
        return TupleColumns(keys, self._relation.pages_of(keys), ids)
