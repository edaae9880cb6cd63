"""What pipelines of several streams do alike: they go on from the last batch, and tell what each stream has brought."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from psycopg2 import extensions
from pyspark import SparkContext

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.fates import Fate
from spark_jobs.definition.stream_tuple import EventColumns
from spark_jobs.driver.intake import Trial
from spark_jobs.driver.stream_courses import CourseRules
from spark_jobs.ledger.batch_ledger import OpenBatch
from spark_jobs.ledger.batch_streams import FormerBatch, StreamCourse, StreamTally, former_batch
from spark_jobs.source.landed_streams import LandedStreams, StreamSlice
from spark_jobs.source.slice_reading import SliceReader
from spark_jobs.stages.reports import BatchReport
from spark_jobs.stages.stream_plan import StreamPlan
from spark_jobs.stages.trial_reading import TrialReading
from spark_jobs.warehouse.fact_table import FactTable


class SeveralStreams:
    """The streams of a pipeline.

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
        self._rules = CourseRules(self._correlate.lateness, self._correlate.idle_after)

    def trial(self, piece: StreamSlice, event: EventColumns, fact: FactTable) -> Trial:
        """As of `Intake`."""
        return TrialReading.of_several(self._stream_plans(fact)[piece.stream], fact), piece.piece

    def _stream_plans(self, fact: FactTable) -> tuple[StreamPlan, ...]:
        """The streams as tasks know them, in their order."""
        return tuple(StreamPlan.of(self._definition, name, fact, self._readers[name]) for name in self._streams)

    def _last_batch(self, connection: extensions.connection) -> FormerBatch:
        """The last committed batch, with the courses of all streams, in their order."""
        with connection, connection.cursor() as cursor:
            former = former_batch(cursor, self._definition.name)
        by_name = {course.stream: course for course in former.courses}
        return former._replace(courses=tuple(by_name.get(name, StreamCourse(name)) for name in self._streams))

    def _arrived(self, batch: OpenBatch, report: BatchReport) -> list[StreamTally]:
        """What was read of each stream, and rejected then; all else is to be filled in."""
        now = datetime.now(UTC)
        by_name = {course.stream: course for course in batch.streams}
        tallies = []
        for number, name in enumerate(self._streams):
            course = by_name[name]
            found = [each for each in report.collected() if each.stream == number]
            arrived = sum(each.records for each in found)
            newest = max((each.newest for each in found if each.newest is not None), default=None)
            tallies.append(
                StreamTally(
                    stream=name,
                    newest=self._rules.newest(course.newest, newest, now),
                    furthest=self._rules.furthest(course.furthest or course.newest, newest),
                    last_arrival=now if arrived else course.last_arrival,
                    arrived=arrived,
                    fates=sum((each.rejected for each in found), Counter[Fate]()),
                )
            )
        return tallies

    def _advance(self, tallies: Sequence[StreamTally]) -> None:
        """Have the source read on by how far each stream's events have come."""
        self._source.advance({tally.stream: tally.newest for tally in tallies})
