"""A join that sheds, at work on a stream that comes too fast for it; what it sheds costs time to write and to read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.experiments.numbered_relation import NumberedRelation
from spark_jobs.experiments.semi_stream.key_streams import Stream, StreamBlocks
from spark_jobs.experiments.semi_stream.run_measurement import WorkCharge
from spark_jobs.experiments.virtual_relation import DiskProfile, VirtualClock
from spark_jobs.joins.semi_stream.base import Int64Array, SemiStreamJoin
from spark_jobs.joins.semi_stream.load_shedding import Destination, LoadSheddingJoin, SheddingPolicy
from spark_jobs.joins.semi_stream.theory.setting import ProcessorCosts
from spark_jobs.joins.structures.stream_buffer import TupleColumns

_BUFFER_BYTES = 1 << 16
# A tuple of the stream (003 Table 1).
_STREAM_TUPLE_BYTES = 20

# The hard disk of 003's machine, and a gigabit network: buffers go out one by one.
SHED_TO_DISK = DiskProfile("disk", seek_seconds=9e-3, bytes_per_second=70e6, block_bytes=_BUFFER_BYTES)
SHED_TO_NETWORK = DiskProfile("network", seek_seconds=0.2e-3, bytes_per_second=117e6, block_bytes=_BUFFER_BYTES)

_BUFFER_TUPLES = 1 << 17


class ChargedDestination:
    """Charges one transfer for each buffer that has been filled, in either direction.

    Args:
        destination: keeps the tuples.
        profile: what a transfer costs; a buffer is its block.
        clock: what is charged.
    """

    def __init__(self, destination: Destination, profile: DiskProfile, clock: VirtualClock) -> None:
        self._destination = destination
        self._profile = profile
        self._clock = clock
        self._buffered_bytes = 0

    def __len__(self) -> int:
        return len(self._destination)

    def put(self, tuples: TupleColumns) -> None:
        """Store tuples."""
        self._charge(len(tuples.ids))
        self._destination.put(tuples)

    def take(self, count: int) -> TupleColumns:
        """Take up to `count` tuples back."""
        tuples = self._destination.take(count)
        self._charge(len(tuples.ids))
        return tuples

    def _charge(self, tuples: int) -> None:
        self._buffered_bytes += tuples * _STREAM_TUPLE_BYTES
        buffers, self._buffered_bytes = divmod(self._buffered_bytes, self._profile.block_bytes)
        self._clock.advance(buffers * self._profile.seconds(self._profile.block_bytes))


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
        """Let `rate` stream tuples a second come until at least `settle` more are settled."""
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
