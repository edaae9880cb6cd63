"""What pipelines of several streams do alike: they go on from the last batch, and tell what each stream has brought."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from psycopg2 import extensions
from pyspark import SparkContext

from spark_jobs.definition.fates import Fate
from spark_jobs.driver.checks import PipelineTables
from spark_jobs.driver.intake import Intake, Trial
from spark_jobs.driver.watermarks import WatermarkRules
from spark_jobs.ledger.batch_ledger import OpenBatch
from spark_jobs.ledger.batch_streams import FormerBatch, StreamProgress, StreamTally, former_batch
from spark_jobs.source.landed_streams import LandedStreams, StreamSlice
from spark_jobs.source.slice_reading import SliceReader
from spark_jobs.stages.reports import BatchReport
from spark_jobs.stages.stream_plan import StreamPlan
from spark_jobs.stages.trial_reading import TrialReading
from spark_jobs.warehouse.fact_table import FactTable


class SeveralStreamsIntake(Intake):
    """The streams of a pipeline.

    Args:
        pipeline: its name.
        streams: their names, in their order.
        spark: runs the tasks.
        source: what the streams bring.
        readers: read their slices, by name.
        rules: of the streams' times.
    """

    def __init__(
        self,
        pipeline: str,
        streams: Sequence[str],
        spark: SparkContext,
        source: LandedStreams,
        readers: Mapping[str, SliceReader],
        rules: WatermarkRules,
    ) -> None:
        super().__init__(pipeline, spark, readers)
        self._streams = streams
        self._source = source
        self._rules = rules

    def trial(self, piece: StreamSlice, tables: PipelineTables) -> Trial:
        """The reader of the slice's stream."""
        return TrialReading.of_several(self._stream_plans(tables.fact)[piece.stream], tables.fact), piece.piece

    @abstractmethod
    def _stream_plans(self, fact: FactTable) -> tuple[StreamPlan, ...]:
        """The streams as tasks know them, in their order."""

    def _last_batch(self, connection: extensions.connection) -> FormerBatch:
        """The last committed batch, with the progress of all streams, in their order."""
        with connection, connection.cursor() as cursor:
            former = former_batch(cursor, self._pipeline)
        by_name = {each.stream: each for each in former.progress}
        return former._replace(progress=tuple(by_name.get(name, StreamProgress(name)) for name in self._streams))

    def _progress_of(self, batch: OpenBatch) -> list[StreamProgress]:
        """How far each stream had come when the batch was opened, in their order."""
        by_name = {each.stream: each for each in batch.streams}
        return [by_name[name] for name in self._streams]

    def _arrived(self, batch: OpenBatch, report: BatchReport) -> list[StreamTally]:
        """What was read of each stream, and rejected then; all else is to be filled in."""
        now = datetime.now(UTC)
        tallies = []
        for number, former in enumerate(self._progress_of(batch)):
            found = [each for each in report.collected() if each.stream == number]
            arrived = sum(each.records for each in found)
            newest = max((each.newest for each in found if each.newest is not None), default=None)
            progress = former._replace(
                newest=self._rules.newest(former.newest, newest, now),
                furthest=self._rules.furthest(former.furthest or former.newest, newest),
                last_arrival=now if arrived else former.last_arrival,
            )
            tallies.append(StreamTally(progress, arrived, sum((each.rejected for each in found), Counter[Fate]())))
        return tallies

    def _advance(self, tallies: Sequence[StreamTally]) -> None:
        """Have the source read on by how far each stream's events have come."""
        self._source.advance({tally.stream: tally.progress.newest for tally in tallies})
