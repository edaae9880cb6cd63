"""How a batch's tuples come to its front stage: what the shapes of pipelines have in common of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from psycopg2 import extensions
from pyspark import RDD, SparkContext

from spark_jobs.driver.checks import PipelineTables
from spark_jobs.ledger import batch_ledger
from spark_jobs.ledger.batch_ledger import OpenBatch
from spark_jobs.ledger.batch_streams import StreamProgress
from spark_jobs.ledger.source_ranges import RangeEnd, SourceRange
from spark_jobs.loading.loader import Destination
from spark_jobs.source.slice_reading import SliceReader
from spark_jobs.source.slices import SourceSlice
from spark_jobs.stages.batch_context import BatchContext
from spark_jobs.stages.batch_job import Report
from spark_jobs.stages.exchange import Parcel
from spark_jobs.stages.reports import BatchReport
from spark_jobs.stages.trial_reading import TrialReading
from spark_jobs.warehouse.fact_table import FactTable

Trial = tuple[TrialReading, SourceSlice]
"""A slice, and what reads it."""

WarmUpTask = Callable[[], str | None]


@dataclass(frozen=True)
class Reading:
    """How a batch is read.

    Attributes:
        tasks: the slices that each task reads.
        context: the batch as its tasks know it.
        report: takes the tasks' reports.
        shuffle: as of `settle`.
    """

    tasks: Sequence[Sequence[Any]]
    context: BatchContext
    report: Report
    shuffle: bool


@dataclass(frozen=True)
class BatchEnd:
    """What a batch has come to.

    Attributes:
        ends: of its ranges, in their order.
        statistics: figures, as JSON takes them.
        fact: the pipeline's fact table.
        report: what its tasks have told.
    """

    ends: Sequence[RangeEnd]
    statistics: Mapping[str, Any]
    fact: FactTable
    report: BatchReport


class Intake(ABC):
    """Opens batches, brings their tuples to the front stage, and closes them: one for each shape of a pipeline.

    Args:
        pipeline: its name.
        spark: runs the tasks.
        readers: read slices in the tasks, by stream.

    Attributes:
        may_shed: whether what would take too long may be put off, to be reprocessed.
    """

    may_shed: ClassVar[bool] = True

    def __init__(self, pipeline: str, spark: SparkContext, readers: Mapping[str, SliceReader]) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._readers = readers

    def warm_up(self, task: WarmUpTask, parts: int) -> list[str | None]:
        """Have a task run in the workers that batches are loaded by: in those that read, and do lookups.

        Args:
            task: what a worker is to do; its result is what was wrong.
            parts: tasks that share a batch.
        """
        readers = list(self._readers.values())

        def readily(_: int) -> str | None:
            for reader in readers:
                reader.get_ready()
            return task()

        return self._spark.parallelize(range(parts), parts).map(readily).collect()

    def open(self, connection: extensions.connection, epoch: int, ranges: Sequence[SourceRange]) -> OpenBatch:
        """Open a batch that reads these ranges; one transaction.

        Raises:
            WriterFencedError: a newer driver has taken over.
        """
        after, streams = self._start(connection, ranges)
        batch_no = batch_ledger.open_batch(connection, self._pipeline, epoch, ranges, streams)
        return OpenBatch(batch_no, list(ranges), streams=streams, after=after)

    def is_due(self, connect: Callable[[], extensions.connection], *, draining: bool) -> bool:
        """Whether a batch is to be made although nothing has landed."""
        return False

    @abstractmethod
    def destination(self, tables: PipelineTables, epoch: int, batch: OpenBatch, *, replayed: bool) -> Destination:
        """Where the batch's tasks load what they settle.

        Args:
            tables: the pipeline's.
            epoch: the driver's epoch.
            batch: the open batch.
            replayed: whether some of it may be stored already.
        """

    @abstractmethod
    def front_stage(self, connection: extensions.connection, batch: OpenBatch, reading: Reading) -> RDD[Parcel]:
        """The tasks of the front stage.

        Args:
            connection: the driver's, not in a transaction.
            batch: the open batch.
            reading: how it is read.
        """

    @abstractmethod
    def trial(self, piece: Any, tables: PipelineTables) -> Trial:
        """What tells whether a slice can be read without the end of the process that reads it.

        Args:
            piece: the slice.
            tables: the pipeline's.
        """

    @abstractmethod
    def close(self, connection: extensions.connection, batch: OpenBatch, end: BatchEnd) -> None:
        """Commit the batch, all of whose tuples are loaded; one transaction.

        Raises:
            WriterFencedError: a newer driver has taken over.
        """

    def _start(
        self, connection: extensions.connection, ranges: Sequence[SourceRange]
    ) -> tuple[int, tuple[StreamProgress, ...]]:
        """The batch that one of these ranges goes on from, and how far the streams have come; of several streams."""
        return 0, ()
