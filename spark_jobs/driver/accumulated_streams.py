"""Several streams whose parts fill one fact: the fact table and the held tuples are all the state there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import ClassVar

from psycopg2 import extensions
from pyspark import RDD, SparkContext

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.fates import DUPLICATE, JOINED, REJECTED, WAITING
from spark_jobs.definition.shapes import AccumulatedStreams
from spark_jobs.driver.checks import PipelineTables
from spark_jobs.driver.intake import BatchEnd, Reading
from spark_jobs.driver.several_streams import SeveralStreamsIntake
from spark_jobs.driver.watermarks import WatermarkRules
from spark_jobs.ledger import batch_ledger
from spark_jobs.ledger.accumulated_parts import PartSums, part_sums
from spark_jobs.ledger.batch_ledger import OpenBatch
from spark_jobs.ledger.batch_streams import StreamProgress, StreamTally
from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.loading.accumulation.accumulating_batch import AccumulatingBatch, held_stream
from spark_jobs.loading.accumulation.closing import settle_held_parts
from spark_jobs.source.held_records import HeldRecords
from spark_jobs.source.landed_streams import LandedStreams
from spark_jobs.source.slice_reading import SliceReader
from spark_jobs.stages.batch_job import accumulated
from spark_jobs.stages.exchange import Parcel
from spark_jobs.stages.stream_plan import StreamPlan
from spark_jobs.warehouse.fact_table import FactTable
from spark_jobs.warehouse.part_table import AccumulatingTable

# Nothing is late for a row. An event time that is further ahead of the clock says nothing of how far its stream is.
_MOST_AHEAD = timedelta(minutes=10)


class AccumulatedStreamsIntake(SeveralStreamsIntake):
    """The parts of several streams, one row for each key.

    Args:
        definition: the pipeline.
        shape: its shape.
        spark: runs the tasks.
        source: what the streams bring.
        readers: read their slices, by name.
    """

    # Reprocessing reads no parts: what was shed of them would stay so.
    may_shed: ClassVar[bool] = False

    def __init__(
        self,
        definition: PipelineDefinition,
        shape: AccumulatedStreams,
        spark: SparkContext,
        source: LandedStreams,
        readers: Mapping[str, SliceReader],
    ) -> None:
        rules = WatermarkRules(_MOST_AHEAD, idle_timeout=None)
        super().__init__(definition.name, tuple(shape.streams), spark, source, readers, rules)
        self._definition = definition
        self._shape = shape

    def destination(self, tables: PipelineTables, epoch: int, batch: OpenBatch, *, replayed: bool) -> AccumulatingBatch:
        """The rows of their keys, or the held tuples."""
        table = self._table(tables.fact)
        units = tuple(each.unit for each in batch.ranges)
        return AccumulatingBatch(tables.event, table, self._read_back(table), epoch, batch.batch_no, replayed, units)

    def front_stage(self, connection: extensions.connection, batch: OpenBatch, reading: Reading) -> RDD[Parcel]:
        """Of parts that make rows those are left that miss a front stage; all others are loaded."""
        plans = self._stream_plans(reading.context.destination.fact)
        return accumulated(self._spark, reading.tasks, plans, reading.context, reading.report, shuffle=reading.shuffle)

    def close(self, connection: extensions.connection, batch: OpenBatch, end: BatchEnd) -> None:
        """Commit it, after parts and rows have met that did not see each other while it was open."""
        table = self._table(end.fact)
        read_back = self._read_back(table)

        def settle(cursor: extensions.cursor) -> list[StreamTally]:
            settle_held_parts(cursor, table, read_back, self._pipeline, batch.batch_no)
            sums = part_sums(cursor, batch.batch_no, batch.after)
            tallies = [_with_sums(each, sums.get(each.stream, PartSums())) for each in self._arrived(batch, end.report)]
            self._advance(tallies)
            return tallies

        batch_ledger.close_batch(connection, batch.batch_no, end.ends, end.statistics, end.fact, settle=settle)

    def _start(
        self, connection: extensions.connection, ranges: Sequence[SourceRange]
    ) -> tuple[int, tuple[StreamProgress, ...]]:
        former = self._last_batch(connection)
        return former.batch_no, former.progress

    def _table(self, fact: FactTable) -> AccumulatingTable:
        return AccumulatingTable.of(self._definition, self._shape, fact)

    def _stream_plans(self, fact: FactTable) -> tuple[StreamPlan, ...]:
        return tuple(
            StreamPlan(held_stream(part), self._readers[part.stream], self._shape.on[part.stream])
            for part in self._table(fact).parts
        )

    def _read_back(self, table: AccumulatingTable) -> tuple[HeldRecords, ...]:
        return HeldRecords.of_parts({name: reader.decoder for name, reader in self._readers.items()}, table)


def _with_sums(tally: StreamTally, found: PartSums) -> StreamTally:
    known = tally.arrived - found.placed
    fates = {DUPLICATE: known, REJECTED: found.rejected, JOINED: found.joined, WAITING: found.waiting}
    return replace(tally, fates=fates)
