"""Several streams that are joined with each other, by a state that moves on with the committed batches.

The version of the state that counts is the number of the last committed batch. A batch starts from that, and writes
the version of its own number before it is closed: whoever goes on with a batch that was cut off starts from the same.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
from psycopg2 import extensions
from pyspark import RDD, SparkContext

from spark_jobs.definition.fates import AFTER_LAST, EXPIRED, EXPIRED_EARLY, LATE, Fate
from spark_jobs.definition.join import FixedWindow
from spark_jobs.definition.joined_tuple import JOINED_ID, STREAM_SEPARATOR
from spark_jobs.definition.shapes import JoinedStreams
from spark_jobs.definition.stream_tuple import ARRIVED_AT
from spark_jobs.driver.checks import PipelineTables
from spark_jobs.driver.intake import BatchEnd, Reading, WarmUpTask
from spark_jobs.driver.join_folder import JoinFolder
from spark_jobs.driver.several_streams import SeveralStreamsIntake
from spark_jobs.driver.watermarks import WatermarkRules, watermark_microseconds
from spark_jobs.join_state.bucket_plan import BucketPlan, summed
from spark_jobs.ledger import batch_ledger
from spark_jobs.ledger.batch_ledger import OpenBatch
from spark_jobs.ledger.batch_streams import FormerBatch, StreamProgress, StreamTally, closed_before
from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.loading.stream_batch import StreamBatch
from spark_jobs.settings import Home
from spark_jobs.source.landed_streams import LandedStreams
from spark_jobs.source.slice_reading import SliceReader
from spark_jobs.stages.batch_job import joined
from spark_jobs.stages.exchange import Parcel
from spark_jobs.stages.pinned_tasks import pinned_over_parcels
from spark_jobs.stages.reports import BatchReport
from spark_jobs.stages.stream_plan import JoinPlan, StreamPlan
from spark_jobs.stages.warm_up import warm_up_bucket
from spark_jobs.warehouse.fact_table import FactTable

# Nothing has landed for so long: what has expired is told now, and does not wait for more.
_QUIET_SECONDS = 1.0
_LOOK_FOR_OLD_VERSIONS_SECONDS = 60.0


class JoinedStreamsIntake(SeveralStreamsIntake):
    """The joined tuples of several streams.

    Args:
        pipeline: its name.
        shape: its streams and their join.
        spark: runs the tasks.
        source: what the streams bring.
        readers: read their slices, by name.
        home: the installation.
        parts: how many buckets a new state gets.
    """

    def __init__(
        self,
        pipeline: str,
        shape: JoinedStreams,
        spark: SparkContext,
        source: LandedStreams,
        readers: Mapping[str, SliceReader],
        home: Home,
        parts: int,
    ) -> None:
        rules = WatermarkRules(shape.join.allowed_lateness, shape.join.idle_timeout)
        super().__init__(pipeline, tuple(shape.streams), spark, source, readers, rules)
        self._shape = shape
        self._join = shape.join
        self._folder = JoinFolder(home, pipeline, shape, parts)
        self._since = datetime.now(UTC)
        self._former: FormerBatch | None = None
        self._quiet_since = time.monotonic()
        self._looked_for_old = 0.0

    def warm_up(self, task: WarmUpTask, parts: int) -> list[str | None]:
        """Have a task run in all workers, those of the buckets among them, whose start takes seconds.

        Args:
            task: what a worker is to do; its result is what was wrong.
            parts: tasks that share a batch.
        """
        buckets = self._folder.noted or parts
        plan = BucketPlan.of(self._shape, buckets)
        columns = [
            {name: kind.arrow() for name, kind in source.columns.items()} for source in self._shape.streams.values()
        ]

        def of_bucket(bucket: int, parcels: Iterable[bytes]) -> Iterator[str | None]:
            yield task()
            yield warm_up_bucket(plan, columns)

        pinned = pinned_over_parcels(self._spark, self._pipeline, [], buckets, of_bucket).collect()
        return pinned + super().warm_up(task, parts)

    def is_due(self, connect: Callable[[], extensions.connection], *, draining: bool) -> bool:
        """Whether tuples wait in the state that may have expired since the last batch."""
        former = self._former = self._former or self._last_batch(connect())
        quiet = draining or time.monotonic() - self._quiet_since > _QUIET_SECONDS
        return quiet and former.waiting > 0 and _watermarks(self._progress(former)) != _watermarks(former.progress)

    def destination(self, tables: PipelineTables, epoch: int, batch: OpenBatch, *, replayed: bool) -> StreamBatch:
        """The fact table, or the held tuples: nobody knows before which ids are to come."""
        units = tuple(each.unit for each in batch.ranges)
        return StreamBatch(tables.event, tables.fact, epoch, batch.batch_no, replayed, units, compares_ids=False)

    def front_stage(self, connection: extensions.connection, batch: OpenBatch, reading: Reading) -> RDD[Parcel]:
        """Tasks that join the streams, and go on with the joined tuples."""
        plan = self._plan(connection, batch, reading.context.destination.fact)
        return joined(self._spark, reading.tasks, plan, reading.context, reading.report, shuffle=reading.shuffle)

    def close(self, connection: extensions.connection, batch: OpenBatch, end: BatchEnd) -> None:
        """Commit it; the state's version is the one of this batch from now on."""
        self._former = None
        tallies = self._tallies(batch, end.report)
        batch_ledger.close_batch(connection, batch.batch_no, end.ends, end.statistics, end.fact, tallies)
        self._quiet_since = time.monotonic()
        self._advance(tallies)

    def _start(
        self, connection: extensions.connection, ranges: Sequence[SourceRange]
    ) -> tuple[int, tuple[StreamProgress, ...]]:
        """How far the streams have come decides what is late in the batch."""
        former = self._former = self._last_batch(connection)
        return former.batch_no, self._progress(former, ranges)

    def _stream_plans(self, fact: FactTable) -> tuple[StreamPlan, ...]:
        return tuple(
            StreamPlan.of(self._pipeline, self._join, name, fact, self._readers[name]) for name in self._streams
        )

    def _progress(self, former: FormerBatch, ranges: Sequence[SourceRange] = ()) -> tuple[StreamProgress, ...]:
        arriving = {each.unit.partition(STREAM_SEPARATOR)[0] for each in ranges}
        return self._rules.next(
            former.progress,
            datetime.now(UTC),
            self._since,
            lambda stream: stream in arriving or self._source.has_waiting(stream),
        )

    def _tallies(self, batch: OpenBatch, report: BatchReport) -> list[StreamTally]:
        buckets = report.bucket_counts()
        if len(buckets) != self._folder.buckets:
            raise AssertionError(
                f"batch {batch.batch_no}: {len(buckets)} of {self._folder.buckets} buckets were told of"
            )
        pairs = zip(self._arrived(batch, report), summed(buckets.values()), strict=True)
        return [self._with_counts(tally, counts) for tally, counts in pairs]

    def _with_counts(self, tally: StreamTally, counts: Counter[Fate]) -> StreamTally:
        fates = Counter(tally.fates)
        for fate, number in counts.items():
            fates[self._join.settled(tally.stream, fate)] += number
        return replace(tally, fates=fates)

    def _plan(self, connection: extensions.connection, batch: OpenBatch, fact: FactTable) -> JoinPlan:
        buckets = self._folder.open(connection, batch.after)
        progress = self._progress_of(batch)
        return JoinPlan(
            streams=self._stream_plans(fact),
            bucket=BucketPlan.of(self._shape, buckets),
            joined=self._joined_schema(),
            identified=bool(self._join.emitting),
            folder=self._folder.path,
            buckets=buckets,
            version=batch.after,
            batch_no=batch.batch_no,
            watermarks=tuple(map(watermark_microseconds, progress)),
            keep_from=self._keep_from(connection),
            reasons=tuple(map(self._reasons, progress)),
            join=self._join,
        )

    def _joined_schema(self) -> pa.Schema:
        kinds = self._shape.tuples.columns
        columns = [(name, kind.arrow()) for name, kind in kinds.items() if name != JOINED_ID]
        return pa.schema([*columns, (ARRIVED_AT, pa.timestamp("us", "UTC"))])

    def _keep_from(self, connection: extensions.connection) -> int:
        """The oldest version of the state that is still needed; 0 where it is not to be told this time."""
        if time.monotonic() - self._looked_for_old < _LOOK_FOR_OLD_VERSIONS_SECONDS:
            return 0
        self._looked_for_old = time.monotonic()
        with connection, connection.cursor() as cursor:
            return closed_before(cursor, self._pipeline, self._join.keep_versions.total_seconds())

    def _reasons(self, stream: StreamProgress) -> dict[Fate, str]:
        """Why tuples of a stream have come to a fate, in words for people."""
        return {
            LATE: self._late(stream),
            AFTER_LAST: self._after_last(stream.stream),
            EXPIRED: self._expired(stream.stream),
            EXPIRED_EARLY: self._expired_early(stream.stream),
        }

    def _late(self, stream: StreamProgress) -> str:
        reached = "" if stream.watermark is None else f" {stream.watermark.isoformat(sep=' ')}"
        why = (
            "it was silent, and followed the others"
            if stream.idle
            else f"allowed_lateness {self._join.allowed_lateness}"
        )
        return f"late: {stream.stream} had come to{reached} when the event arrived, which happened before ({why})"

    def _expired(self, stream: str) -> str:
        others = " and ".join(name for name in self._streams if name != stream)
        window = self._join.window
        time_ = f"in its window of {window.fixed}" if isinstance(window, FixedWindow) else f"within {window} of it"
        return f"no {others} {time_}"

    def _after_last(self, stream: str) -> str:
        punctuation = self._join.punctuations.get(stream)
        if punctuation is None:
            return ""
        if isinstance(punctuation, str):
            said = f"one of the key had come, which is unique in {stream}"
        elif punctuation.when is not None:
            said = f"{stream}.{punctuation.when} had marked the last one of the key"
        else:
            said = f"as many of the key had come as {punctuation.count} told"
        return f"after the last: {said} (join.punctuations.{stream})"

    def _expired_early(self, stream: str) -> str:
        others = " and ".join(name for name in self._streams if name != stream)
        return f"no {others} with its key, and no more to come, by join.punctuations"


def _watermarks(progress: Sequence[StreamProgress]) -> list[datetime | None]:
    return [each.watermark for each in progress]
