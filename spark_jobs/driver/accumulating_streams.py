"""Several streams whose parts fill one fact: the fact table and the held tuples are all the state there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from psycopg2 import extensions
from pyspark import RDD

from spark_jobs.definition.fates import DUPLICATE, JOINED, REJECTED, WAITING
from spark_jobs.definition.stream_tuple import EventColumns
from spark_jobs.driver.intake import Rehearse, rehearsed
from spark_jobs.driver.several_streams import SeveralStreams
from spark_jobs.ledger import batch_ledger
from spark_jobs.ledger.accumulated_parts import PartSums, part_sums
from spark_jobs.ledger.batch_ledger import OpenBatch
from spark_jobs.ledger.batch_streams import StreamTally
from spark_jobs.ledger.source_ranges import RangeEnd, SourceRange
from spark_jobs.loading.accumulation.accumulating_batch import AccumulatingBatch, held_stream
from spark_jobs.loading.accumulation.closing import settle_held_parts
from spark_jobs.source.held_records import HeldRecords
from spark_jobs.source.landed_streams import StreamSlice
from spark_jobs.stages.batch_context import BatchContext
from spark_jobs.stages.batch_job import Report, accumulated
from spark_jobs.stages.exchange import Parcel
from spark_jobs.stages.reports import BatchReport
from spark_jobs.stages.stream_plan import StreamPlan
from spark_jobs.warehouse.fact_table import FactTable
from spark_jobs.warehouse.part_table import AccumulatingTable


class AccumulatingStreams(SeveralStreams):
    """The parts of several streams, one row for each key (`emit: accumulate`)."""

    def rehearse(self, task: Rehearse, parts: int) -> list[str | None]:
        """As of `Intake`."""
        return rehearsed(self._spark, task, parts, list(self._readers.values()))

    def open(self, connection: extensions.connection, epoch: int, ranges: Sequence[SourceRange]) -> OpenBatch:
        """As of `Intake`."""
        former = self._last_batch(connection)
        batch_no = batch_ledger.open_batch(connection, self._definition.name, epoch, ranges, former.courses)
        return OpenBatch(batch_no, list(ranges), streams=former.courses, after=former.batch_no)

    def is_due(self, connect: Callable[[], extensions.connection], *, draining: bool) -> bool:
        """Never: parts don't expire."""
        return False

    def destination(
        self, event: EventColumns, fact: FactTable, epoch: int, batch: OpenBatch, *, replayed: bool
    ) -> AccumulatingBatch:
        """As of `Intake`."""
        table = AccumulatingTable.of(self._definition, fact)
        read_back = self._read_back(table)
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
        plans = self._stream_plans(context.destination.fact)
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
        read_back = self._read_back(table)

        def settle(cursor: extensions.cursor) -> list[StreamTally]:
            settle_held_parts(cursor, table, read_back, self._definition.name, batch.batch_no)
            sums = part_sums(cursor, batch.batch_no, batch.after)
            tallies = [_with_sums(each, sums.get(each.stream, PartSums())) for each in self._arrived(batch, report)]
            self._advance(tallies)
            return tallies

        batch_ledger.close_batch(connection, batch.batch_no, ends, statistics, fact, settle=settle)

    def _stream_plans(self, fact: FactTable) -> tuple[StreamPlan, ...]:
        table = AccumulatingTable.of(self._definition, fact)
        return tuple(
            StreamPlan(held_stream(part), self._readers[part.stream], self._correlate.on[part.stream])
            for part in table.parts
        )

    def _read_back(self, table: AccumulatingTable) -> tuple[HeldRecords, ...]:
        return HeldRecords.of_parts({name: reader.decoder for name, reader in self._readers.items()}, table)


def _with_sums(tally: StreamTally, found: PartSums) -> StreamTally:
    known = tally.arrived - found.placed
    fates = {DUPLICATE: known, REJECTED: found.rejected, JOINED: found.joined, WAITING: found.waiting}
    return replace(tally, fates=fates)
