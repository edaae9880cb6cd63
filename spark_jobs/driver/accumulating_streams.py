"""Several streams whose parts fill one fact: the fact table and the held tuples are all the state there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from psycopg2 import extensions
from pyspark import RDD, SparkContext

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.stream_tuple import EventColumns
from spark_jobs.driver.intake import Rehearse, rehearsed
from spark_jobs.driver.stream_courses import CourseRules
from spark_jobs.ledger import batch_ledger
from spark_jobs.ledger.accumulated_parts import PartSums, part_sums
from spark_jobs.ledger.batch_ledger import OpenBatch
from spark_jobs.ledger.batch_streams import StreamCourse, StreamTally, former_batch
from spark_jobs.ledger.source_ranges import RangeEnd, SourceRange
from spark_jobs.loading.accumulation.accumulating_batch import AccumulatingBatch, held_stream
from spark_jobs.loading.accumulation.closing import settle_held_parts
from spark_jobs.source.held_records import HeldRecords
from spark_jobs.source.landed_streams import LandedStreams, StreamSlice
from spark_jobs.source.slice_reading import SliceReader
from spark_jobs.stages.batch_context import BatchContext
from spark_jobs.stages.batch_job import Report, accumulated
from spark_jobs.stages.exchange import Parcel
from spark_jobs.stages.reports import BatchReport
from spark_jobs.stages.stream_plan import StreamPlan
from spark_jobs.warehouse.fact_table import FactTable
from spark_jobs.warehouse.part_table import AccumulatingTable


class AccumulatingStreams:
    """The parts of several streams, one row for each key (`emit: accumulate`).

    Args:
        definition: the pipeline.
        spark: runs the tasks.
        source: what the streams bring.
        readers: read their slices, by name.
    """

    def __init__(
        self,
        definition: PipelineDefinition,
        spark: SparkContext,
        source: LandedStreams,
        readers: Mapping[str, SliceReader],
    ) -> None:
        assert definition.streams is not None
        assert definition.correlate is not None
        self._definition = definition
        self._correlate = definition.correlate
        self._streams = definition.streams
        self._spark = spark
        self._source = source
        self._readers = readers
        self._decoders = {name: reader.decoder for name, reader in readers.items()}
        self._rules = CourseRules(self._correlate.lateness, self._correlate.idle_after)

    def rehearse(self, task: Rehearse, parts: int) -> list[str | None]:
        """As of `Intake`."""
        return rehearsed(self._spark, task, parts, list(self._readers.values()))

    def open(self, connection: extensions.connection, epoch: int, ranges: Sequence[SourceRange]) -> OpenBatch:
        """As of `Intake`."""
        with connection, connection.cursor() as cursor:
            former = former_batch(cursor, self._definition.name)
        by_name = {course.stream: course for course in former.courses}
        courses = tuple(by_name.get(name, StreamCourse(name)) for name in self._streams)
        batch_no = batch_ledger.open_batch(connection, self._definition.name, epoch, ranges, courses)
        return OpenBatch(batch_no, list(ranges), streams=courses, after=former.batch_no)

    def is_due(self, connect: Callable[[], extensions.connection], *, draining: bool) -> bool:
        """Never: parts don't expire."""
        return False

    def destination(
        self, event: EventColumns, fact: FactTable, epoch: int, batch: OpenBatch, *, replayed: bool
    ) -> AccumulatingBatch:
        """As of `Intake`."""
        table = AccumulatingTable.of(self._definition, fact)
        read_back = HeldRecords.of_parts(self._decoders, table)
        units = tuple(each.unit for each in batch.ranges)
        return AccumulatingBatch(event, table, read_back, epoch, batch.batch_no, replayed, units)

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
        """As of `Intake`: of parts that make rows those are left that miss a front stage; all others are loaded."""
        table = AccumulatingTable.of(self._definition, context.destination.fact)
        plans = [
            StreamPlan(held_stream(part), self._readers[part.stream], self._correlate.on[part.stream])
            for part in table.parts
        ]
        return accumulated(self._spark, tasks, plans, context, report, shuffle=shuffle)

    def close(
        self,
        connection: extensions.connection,
        batch: OpenBatch,
        ends: Sequence[RangeEnd],
        statistics: Mapping[str, Any],
        fact: FactTable,
        report: BatchReport,
    ) -> None:
        """As of `Intake`."""
        table = AccumulatingTable.of(self._definition, fact)
        read_back = HeldRecords.of_parts(self._decoders, table)

        def settle(cursor: extensions.cursor) -> list[StreamTally]:
            settle_held_parts(cursor, table, read_back, self._definition.name, batch.batch_no)
            tallies = self._tallies(batch, report, part_sums(cursor, batch.batch_no, batch.after))
            by_time = sorted(tallies, key=lambda tally: tally.newest or datetime.min.replace(tzinfo=UTC))
            self._source.prefer([tally.stream for tally in by_time])
            return tallies

        batch_ledger.close_batch(connection, batch.batch_no, ends, statistics, fact, settle=settle)

    def _tallies(self, batch: OpenBatch, report: BatchReport, sums: Mapping[str, PartSums]) -> list[StreamTally]:
        now = datetime.now(UTC)
        by_name = {course.stream: course for course in batch.streams}
        tallies = []
        for number, name in enumerate(self._streams):
            course, found = by_name[name], sums.get(name, PartSums())
            collected = [each for each in report.collected() if each.stream == number]
            arrived = sum(each.records for each in collected)
            newest = max((each.newest for each in collected if each.newest is not None), default=None)
            tallies.append(
                StreamTally(
                    stream=name,
                    newest=self._rules.newest(course.newest, newest, now),
                    last_arrival=now if arrived else course.last_arrival,
                    arrived=arrived,
                    duplicates=arrived - found.placed,
                    rejected=found.rejected,
                    late=0,
                    joined=found.joined,
                    expired=0,
                    waiting=found.waiting,
                )
            )
        return tallies
