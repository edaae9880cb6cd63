"""How a batch's tuples come to its front stage: what differs between one stream and several that are joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from psycopg2 import extensions
from pyspark import RDD, SparkContext

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.stream_tuple import EventColumns
from spark_jobs.ledger import batch_ledger
from spark_jobs.ledger.batch_ledger import OpenBatch
from spark_jobs.ledger.source_ranges import RangeEnd, SourceRange
from spark_jobs.loading.loader import Destination
from spark_jobs.loading.stream_batch import StreamBatch
from spark_jobs.source.slice_reading import SliceReader
from spark_jobs.source.slices import SourceSlice
from spark_jobs.stages.batch_context import BatchContext
from spark_jobs.stages.batch_job import Report, front_stage
from spark_jobs.stages.exchange import Parcel
from spark_jobs.stages.reports import BatchReport
from spark_jobs.stages.trial_reading import TrialReading
from spark_jobs.warehouse.fact_table import FactTable

Trial = tuple[TrialReading, SourceSlice]
"""A slice, and what reads it."""

Rehearse = Callable[[], str | None]


def rehearsed(spark: SparkContext, task: Rehearse, parts: int, readers: Sequence[SliceReader]) -> list[str | None]:
    """What was wrong in the workers that read, and do lookups."""

    def readily(_: int) -> str | None:
        for reader in readers:
            reader.get_ready()
        return task()

    return spark.parallelize(range(parts), parts).map(readily).collect()


class Intake(Protocol):
    """Opens batches, brings their tuples to the front stage, and closes them."""

    def rehearse(self, task: Rehearse, parts: int) -> list[str | None]:
        """Have a task run in the workers that batches are loaded by.

        Args:
            task: what a worker is to do; its result is what was wrong.
            parts: tasks that share a batch.
        """

    def open(self, connection: extensions.connection, epoch: int, ranges: Sequence[SourceRange]) -> OpenBatch:
        """Open a batch that reads these ranges; one transaction.

        Raises:
            WriterFencedError: a newer driver has taken over.
        """

    def is_due(self, connect: Callable[[], extensions.connection], *, draining: bool) -> bool:
        """Whether a batch is to be made although nothing has landed."""

    def destination(
        self, event: EventColumns, fact: FactTable, epoch: int, batch: OpenBatch, *, replayed: bool
    ) -> Destination:
        """Where the batch's tasks load what they settle.

        Args:
            event: the pipeline's event columns.
            fact: its fact table.
            epoch: the driver's epoch.
            batch: the open batch.
            replayed: whether some of it may be stored already.
        """

    def front_stage(
        self,
        connection: extensions.connection,
        batch: OpenBatch,
        tasks: Sequence[Sequence[Any]],
        context: BatchContext,
        report: Report,
        *,
        shuffle: bool,
    ) -> RDD[Parcel]:
        """The tasks of the front stage.

        Args:
            connection: the driver's, not in a transaction.
            batch: the open batch.
            tasks: the slices that each task reads.
            context: the batch as its tasks know it.
            report: takes the tasks' reports.
            shuffle: as of `settle`.
        """

    def trial(self, piece: Any, event: EventColumns, fact: FactTable) -> Trial:
        """What tells whether a slice can be read without the end of the process that reads it.

        Args:
            piece: the slice.
            event: the pipeline's event columns.
            fact: its fact table.
        """

    def close(
        self,
        connection: extensions.connection,
        batch: OpenBatch,
        ends: Sequence[RangeEnd],
        statistics: Mapping[str, Any],
        fact: FactTable,
        report: BatchReport,
    ) -> None:
        """Commit the batch, all of whose tuples are loaded; one transaction.

        Raises:
            WriterFencedError: a newer driver has taken over.
        """


def stream_batch(
    event: EventColumns, fact: FactTable, epoch: int, batch: OpenBatch, *, replayed: bool, compares_ids: bool = True
) -> StreamBatch:
    """A batch whose tuples are facts, each for itself; arguments as of `Intake` and `StreamBatch`."""
    units = tuple(each.unit for each in batch.ranges)
    return StreamBatch(event, fact, epoch, batch.batch_no, replayed, units, compares_ids)


class OneStream:
    """The tuples of a single stream, as they are read.

    Args:
        definition: the pipeline.
        spark: runs the tasks.
        reader: reads slices in the tasks.
    """

    def __init__(self, definition: PipelineDefinition, spark: SparkContext, reader: SliceReader) -> None:
        self._pipeline = definition.name
        self._spark = spark
        self._reader = reader

    def rehearse(self, task: Rehearse, parts: int) -> list[str | None]:
        """As of `Intake`."""
        return rehearsed(self._spark, task, parts, [self._reader])

    def open(self, connection: extensions.connection, epoch: int, ranges: Sequence[SourceRange]) -> OpenBatch:
        """As of `Intake`."""
        return OpenBatch(batch_ledger.open_batch(connection, self._pipeline, epoch, ranges), list(ranges))

    def is_due(self, connect: Callable[[], extensions.connection], *, draining: bool) -> bool:
        """Never: without tuples there is nothing to do."""
        return False

    def destination(
        self, event: EventColumns, fact: FactTable, epoch: int, batch: OpenBatch, *, replayed: bool
    ) -> Destination:
        """As of `Intake`."""
        return stream_batch(event, fact, epoch, batch, replayed=replayed)

    def front_stage(
        self,
        connection: extensions.connection,
        batch: OpenBatch,
        tasks: Sequence[Sequence[Any]],
        context: BatchContext,
        report: Report,
        *,
        shuffle: bool,
    ) -> RDD[Parcel]:
        """As of `Intake`."""
        return front_stage(self._spark, tasks, self._reader, context, report)

    def trial(self, piece: SourceSlice, event: EventColumns, fact: FactTable) -> Trial:
        """As of `Intake`."""
        return TrialReading.of_one(self._reader, event, fact), piece

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
        batch_ledger.close_batch(connection, batch.batch_no, ends, statistics, fact, unsettled=report.unsettled())
