"""A single stream: each of its tuples becomes a fact for itself."""

from __future__ import annotations

from typing import Any

from psycopg2 import extensions
from pyspark import RDD

from spark_jobs.driver.checks import PipelineTables
from spark_jobs.driver.intake import BatchEnd, Intake, Reading, Trial
from spark_jobs.ledger import batch_ledger
from spark_jobs.ledger.batch_ledger import OpenBatch
from spark_jobs.loading.stream_batch import StreamBatch
from spark_jobs.source.slice_reading import SliceReader
from spark_jobs.stages.batch_job import front_stage
from spark_jobs.stages.exchange import Parcel
from spark_jobs.stages.trial_reading import TrialReading


class OneStreamIntake(Intake):
    """The tuples of a single stream, as they are read."""

    def destination(self, tables: PipelineTables, epoch: int, batch: OpenBatch, *, replayed: bool) -> StreamBatch:
        """The fact table, or the held tuples: what was read is compared with what is there by its ids."""
        units = tuple(each.unit for each in batch.ranges)
        return StreamBatch(tables.event, tables.fact, epoch, batch.batch_no, replayed, units)

    def front_stage(self, connection: extensions.connection, batch: OpenBatch, reading: Reading) -> RDD[Parcel]:
        """Tasks that read the tuples themselves."""
        return front_stage(self._spark, reading.tasks, self._reader, reading.context, reading.report)

    def trial(self, piece: Any, tables: PipelineTables) -> Trial:
        """The reader of the stream."""
        return TrialReading.of_one(self._reader, tables.event, tables.fact), piece

    def close(self, connection: extensions.connection, batch: OpenBatch, end: BatchEnd) -> None:
        """Commit it; what was read and is not loaded is told by what remains of the ids."""
        unsettled = end.report.unsettled()
        batch_ledger.close_batch(connection, batch.batch_no, end.ends, end.statistics, end.fact, unsettled=unsettled)

    @property
    def _reader(self) -> SliceReader:
        [reader] = self._readers.values()
        return reader
