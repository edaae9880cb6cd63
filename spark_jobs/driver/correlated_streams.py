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
from typing import Any

import pyarrow as pa
from psycopg2 import extensions
from pyspark import RDD, SparkContext

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.correlation import JOINED_ID, STREAM_SEPARATOR, FixedWindow, settled_as
from spark_jobs.definition.fates import AFTER_LAST, EXPIRED, EXPIRED_EARLY, LATE, Fate
from spark_jobs.definition.stream_tuple import ARRIVED_AT, EventColumns
from spark_jobs.driver.intake import Rehearse, rehearsed, stream_batch
from spark_jobs.driver.join_folder import JoinFolder
from spark_jobs.driver.several_streams import SeveralStreams
from spark_jobs.driver.stream_courses import microseconds_reached
from spark_jobs.join_state.correlated import BucketPlan, summed
from spark_jobs.ledger import batch_ledger
from spark_jobs.ledger.batch_ledger import OpenBatch
from spark_jobs.ledger.batch_streams import FormerBatch, StreamCourse, StreamTally, closed_before
from spark_jobs.ledger.source_ranges import RangeEnd, SourceRange
from spark_jobs.loading.loader import Destination
from spark_jobs.settings import Home
from spark_jobs.source.landed_streams import LandedStreams, StreamSlice
from spark_jobs.source.slice_reading import SliceReader
from spark_jobs.stages.batch_context import BatchContext
from spark_jobs.stages.batch_job import Report, correlated
from spark_jobs.stages.exchange import Parcel
from spark_jobs.stages.pinned_tasks import pinned_over_parcels
from spark_jobs.stages.rehearsal import rehearse_bucket
from spark_jobs.stages.reports import BatchReport
from spark_jobs.stages.stream_plan import JoinPlan
from spark_jobs.warehouse.fact_table import FactTable

# Nothing has landed for so long: what has expired is told now, and does not wait for more.
_QUIET_SECONDS = 1.0
_LOOK_FOR_OLD_VERSIONS_SECONDS = 60.0


class CorrelatedStreams(SeveralStreams):
    """The joined tuples of several streams (`emit: complete`).

    Args:
        definition, spark, source, readers: as of `SeveralStreams`.
        home: the installation.
        parts: how many buckets a new state gets.
    """

    def __init__(
        self,
        definition: PipelineDefinition,
        spark: SparkContext,
        source: LandedStreams,
        readers: Mapping[str, SliceReader],
        home: Home,
        parts: int,
    ) -> None:
        super().__init__(definition, spark, source, readers)
        self._folder = JoinFolder(home, definition, parts)
        self._since = datetime.now(UTC)
        self._former: FormerBatch | None = None
        self._quiet_since = time.monotonic()
        self._looked_for_old = 0.0

    def rehearse(self, task: Rehearse, parts: int) -> list[str | None]:
        """As of `Intake`; the buckets' workers are started by it, which takes seconds."""
        buckets = self._folder.noted or parts
        plan = BucketPlan.of(self._definition, buckets)
        columns = [{name: kind.arrow() for name, kind in source.columns.items()} for source in self._streams.values()]

        def of_bucket(bucket: int, parcels: Iterable[bytes]) -> Iterator[str | None]:
            yield task()
            yield rehearse_bucket(plan, columns)

        pinned = pinned_over_parcels(self._spark, self._definition.name, [], buckets, of_bucket).collect()
        return pinned + rehearsed(self._spark, task, parts, list(self._readers.values()))

    def open(self, connection: extensions.connection, epoch: int, ranges: Sequence[SourceRange]) -> OpenBatch:
        """As of `Intake`; notes how far the streams have come, which decides what is late in the batch."""
        former = self._former = self._last_batch(connection)
        courses = self._courses(former, ranges)
        batch_no = batch_ledger.open_batch(connection, self._definition.name, epoch, ranges, courses)
        return OpenBatch(batch_no, list(ranges), streams=courses, after=former.batch_no)

    def is_due(self, connect: Callable[[], extensions.connection], *, draining: bool) -> bool:
        """Whether tuples wait in the state that may have expired since the last batch."""
        former = self._former = self._former or self._last_batch(connect())
        quiet = draining or time.monotonic() - self._quiet_since > _QUIET_SECONDS
        return quiet and former.waiting > 0 and _reached(self._courses(former)) != _reached(former.courses)

    def destination(
        self, event: EventColumns, fact: FactTable, epoch: int, batch: OpenBatch, *, replayed: bool
    ) -> Destination:
        """As of `Intake`."""
        return stream_batch(event, fact, epoch, batch, replayed=replayed, compares_ids=False)

    def front_stage(
        self,
        connection: extensions.connection,
        batch: OpenBatch,
        tasks: Sequence[Sequence[StreamSlice]],
        context: BatchContext,
        report: Report,
        *,
        shuffle: bool,
    ) -> RDD[Parcel]:
        """As of `Intake`: the joined tuples."""
        plan = self._plan(connection, batch, context.destination.fact)
        return correlated(self._spark, tasks, plan, context, report, shuffle=shuffle)

    def close(
        self,
        connection: extensions.connection,
        batch: OpenBatch,
        ends: Sequence[RangeEnd],
        statistics: Mapping[str, Any],
        fact: FactTable,
        report: BatchReport,
    ) -> None:
        """As of `Intake`; the state's version is the one of this batch from now on."""
        self._former = None
        tallies = self._tallies(batch, report)
        batch_ledger.close_batch(connection, batch.batch_no, ends, statistics, fact, tallies)
        self._quiet_since = time.monotonic()
        self._advance(tallies)

    def _courses(self, former: FormerBatch, ranges: Sequence[SourceRange] = ()) -> tuple[StreamCourse, ...]:
        arriving = {each.unit.partition(STREAM_SEPARATOR)[0] for each in ranges}
        return self._rules.next(
            former.courses,
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
            fates[settled_as(fate, self._correlate.becomes(tally.stream))] += number
        return replace(tally, fates=fates)

    def _plan(self, connection: extensions.connection, batch: OpenBatch, fact: FactTable) -> JoinPlan:
        buckets = self._folder.open(connection, batch.after)
        by_name = {course.stream: course for course in batch.streams}
        courses = [by_name[name] for name in self._streams]
        return JoinPlan(
            streams=self._stream_plans(fact),
            bucket=BucketPlan.of(self._definition, buckets),
            joined=self._joined_schema(),
            identified=bool(self._correlate.emitting),
            folder=self._folder.path,
            buckets=buckets,
            version=batch.after,
            batch_no=batch.batch_no,
            reached=tuple(map(microseconds_reached, courses)),
            keep_from=self._keep_from(connection),
            reasons=tuple(map(self._reasons, courses)),
            becomes=tuple(map(self._correlate.becomes, self._streams)),
        )

    def _joined_schema(self) -> pa.Schema:
        kinds = self._definition.source.columns
        columns = [(name, kind.arrow()) for name, kind in kinds.items() if name != JOINED_ID]
        return pa.schema([*columns, (ARRIVED_AT, pa.timestamp("us", "UTC"))])

    def _keep_from(self, connection: extensions.connection) -> int:
        """The oldest version of the state that is still needed; 0 where it is not to be told this time."""
        if time.monotonic() - self._looked_for_old < _LOOK_FOR_OLD_VERSIONS_SECONDS:
            return 0
        self._looked_for_old = time.monotonic()
        with connection, connection.cursor() as cursor:
            return closed_before(cursor, self._definition.name, self._correlate.keep_versions.total_seconds())

    def _reasons(self, course: StreamCourse) -> dict[Fate, str]:
        """Why tuples of a stream have come to a fate, in words for people."""
        return {
            LATE: self._late(course),
            AFTER_LAST: self._after_last(course.stream),
            EXPIRED: self._expired(course.stream),
            EXPIRED_EARLY: self._expired_early(course.stream),
        }

    def _late(self, course: StreamCourse) -> str:
        reached = "" if course.reached is None else f" {course.reached.isoformat(sep=' ')}"
        why = "it was silent, and followed the others" if course.idle else f"lateness {self._correlate.lateness}"
        return f"late: {course.stream} had come to{reached} when the event arrived, which happened before ({why})"

    def _expired(self, stream: str) -> str:
        others = " and ".join(name for name in self._streams if name != stream)
        within = self._correlate.within
        time_ = f"in its window of {within.fixed}" if isinstance(within, FixedWindow) else f"within {within} of it"
        return f"no {others} {time_}"

    def _after_last(self, stream: str) -> str:
        punctuation = self._correlate.punctuations.get(stream)
        if punctuation is None:
            return ""
        if isinstance(punctuation, str):
            said = f"one of the key had come, which is unique in {stream}"
        elif punctuation.when is not None:
            said = f"{stream}.{punctuation.when} had marked the last one of the key"
        else:
            said = f"as many of the key had come as {punctuation.count} told"
        return f"after the last: {said} (correlate.punctuations.{stream})"

    def _expired_early(self, stream: str) -> str:
        others = " and ".join(name for name in self._streams if name != stream)
        return f"no {others} with its key, and no more to come, by correlate.punctuations"


def _reached(courses: Sequence[StreamCourse]) -> list[datetime | None]:
    return [course.reached for course in courses]
