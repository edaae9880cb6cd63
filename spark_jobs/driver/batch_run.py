"""Loads one batch: plans it, runs it on Spark, checks that what was planned was read, and closes it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

from psycopg2 import extensions
from pyspark import SparkContext

from spark_jobs.definition import PipelineDefinition
from spark_jobs.driver.admission import Admission
from spark_jobs.driver.checks import PipelineTables, check_tables
from spark_jobs.driver.intake import BatchEnd, Intake, Reading
from spark_jobs.driver.poisoned_batch import search, set_aside
from spark_jobs.driver.session import jobs_of, take_turns
from spark_jobs.driver.shed_budget import ShedBudget
from spark_jobs.errors import FreshetError
from spark_jobs.ledger import batch_ledger
from spark_jobs.ledger.poison import PoisonSpan
from spark_jobs.ledger.source_ranges import RangeEnd, RecordMark, SourceRange
from spark_jobs.loading.loader import Destination
from spark_jobs.lookup.driven_lookups import DrivenLookups
from spark_jobs.lookup.hot_keys.learned import warm_up_learning
from spark_jobs.lookup.relation.relation_spec import RelationSpec
from spark_jobs.secret_text import SecretText
from spark_jobs.source.landed_source import LandedSource, PlannedSlice
from spark_jobs.stages.batch_context import BatchContext
from spark_jobs.stages.batch_job import front_stage, settle
from spark_jobs.stages.reports import BatchReport, ReportChannel
from spark_jobs.stages.warm_up import WarmUp, read_nothing, unreported, warm_up
from spark_jobs.warehouse.fact_table import FactTable

_log = logging.getLogger(__name__)

SETTLING_BATCHES = 3
_NO_BATCH = 0
# Fewer tuples travel by way of the driver: for them that is quicker than a shuffle.
_CARRIED_TUPLES = 100_000
# To have two tasks begin with fewer costs more than it saves.
_RECORDS_OF_ONE_TASK = 10_000
_LOOK_SECONDS = 0.1
_NOT_WARM = "%s: could not warm up, so the first batches will be slower: %s"


class BatchRun:
    """Loads the batches of one pipeline, one at a time.

    What a batch found out is taken in beside the next one, and used by the one after that; of the first batches at
    once, for much is to be won by it.

    Args:
        definition: the pipeline.
        tables: what the warehouse says of its tables.
        spark: runs the tasks.
        warehouse_url: libpq URL of the warehouse.
        source: knows where ranges are found.
        intake: brings the tuples of a batch to its front stage.
        lookups: the pipeline's lookups.
        parts: tasks that share a batch.

    Attributes:
        epoch: the driver's epoch; 0 until it has taken the pipeline over.
    """

    def __init__(
        self,
        definition: PipelineDefinition,
        tables: PipelineTables,
        spark: SparkContext,
        warehouse_url: str,
        source: LandedSource,
        intake: Intake,
        lookups: DrivenLookups,
        parts: int,
    ) -> None:
        self._definition = definition
        self._tables = tables
        self._spark = spark
        self._url = SecretText(warehouse_url)
        self._source = source
        self._intake = intake
        self._lookups = lookups
        self._parts = parts
        self._reports = ReportChannel(spark)
        self._admission = Admission(definition.freshness.target)
        self._shed_budget = ShedBudget(definition.freshness.target, len(definition.lookups))
        self._records_per_byte = self._misses_per_byte = 1.0  # of the last batch; before any, the most there may be
        self._was_all_hot = False
        self._batches = 0
        self._learner = ThreadPoolExecutor(1, "learning")
        self._learning: Future[None] = self._learner.submit(lambda: None)
        self.epoch = 0

    @property
    def fact(self) -> FactTable:
        """The fact table."""
        return self._tables.fact

    @property
    def most_bytes(self) -> int:
        """Bytes that the next batch may read."""
        return self._admission.batch_bytes

    def open(self, connection: extensions.connection, ranges: Sequence[SourceRange]) -> batch_ledger.OpenBatch:
        """Open a batch that reads these ranges; there may be none, if one is due.

        Raises:
            WriterFencedError: a newer driver has taken over.
        """
        return self._intake.open(connection, self.epoch, ranges)

    def is_due(self, connect: Callable[[], extensions.connection], *, draining: bool) -> bool:
        """Whether a batch is to be made although nothing has landed; asked again and again, mostly in vain."""
        return self._intake.is_due(connect, draining=draining)

    def load(
        self, connection: extensions.connection, batch: batch_ledger.OpenBatch, *, replayed: bool, draining: bool
    ) -> None:
        """Load an open batch and close it.

        Args:
            connection: the driver's, from the batch's begin to its end. A server that crashes takes it along, so that
                the batch stays open: what its tasks had committed may be lost.
            batch: what to load.
            replayed: whether some of it may be stored already.
            draining: whether the stream is to end with what has landed: then nothing is shed.
        """
        try:
            self._load(connection, batch, replayed=replayed, draining=draining)
        except BaseException:
            self._lookups.release(batch.batch_no)
            raise

    def without_poison(
        self, connection: extensions.connection, batch: batch_ledger.OpenBatch
    ) -> batch_ledger.OpenBatch | None:
        """The batch with what of it ends the processes that read it, which the ledger knows then; None: none was found.

        Raises:
            WriterFencedError: a newer driver has taken over.
        """
        wanted = [(number, each) for number, each in enumerate(batch.ranges) if number not in batch.lost]
        pieces = [piece for task in self._source.pieces(wanted, 1) for piece in task]
        trials = [self._intake.trial(piece, self._tables) for piece in pieces]
        found: dict[int, list[PoisonSpan]] = {}
        for piece, spans in zip(pieces, search(self._definition.name, trials, self._parts), strict=True):
            found.setdefault(piece.range_no, []).extend(spans)
        return set_aside(connection, self._definition.name, self.epoch, batch, found)

    def await_learning(self) -> None:
        """Wait until what the last batch found out is taken in."""
        wait([self._learning])

    def _load(
        self, connection: extensions.connection, batch: batch_ledger.OpenBatch, *, replayed: bool, draining: bool
    ) -> None:
        began_at, started = time.time(), time.perf_counter()
        name, ranges = self._definition.name, batch.ranges
        destination = self._intake.destination(self._tables, self.epoch, batch, replayed=replayed)
        context = self._context(destination, batch.batch_no, shedding=not draining)
        # A range that is given up is not read any more.
        wanted = [number for number in range(len(ranges)) if number not in batch.lost]
        size = sum(ranges[number].bytes for number in wanted)
        records, misses = size * self._records_per_byte, size * self._misses_per_byte
        parts = self._parts if records > _RECORDS_OF_ONE_TASK else 1
        take_turns(name, self._spark, small=parts == 1)
        tasks = self._source.pieces([(number, ranges[number]) for number in wanted], parts)
        self._spark.setJobDescription(f"{name} batch {batch.batch_no}")
        self._reports.receive()  # of a try that failed: what it found is older than what this one knows
        send = self._reports.send
        reading = Reading(tasks, context, send, shuffle=records > _CARRIED_TUPLES)
        waiting = self._intake.front_stage(connection, batch, reading)
        # After all of R was hot the last batch tells nothing of what misses.
        misses = 0.0 if context.all_is_hot else records if self._was_all_hot or replayed else misses
        settle(waiting, context, send, shuffle=misses > _CARRIED_TUPLES)
        report = BatchReport(self._reports.receive())
        ends = _ends(batch, tasks, report)
        statistics = report.statistics(context.lookups, waited_seconds(ranges, began_at))
        self._intake.close(connection, batch, BatchEnd(ends, statistics, self.fact, report))
        if report.arrived and not replayed:
            self._records_per_byte, self._misses_per_byte = report.arrived / size, report.misses / size
        self._was_all_hot = context.all_is_hot
        seconds = time.perf_counter() - started
        _log.info("%s: batch %d: %d records in %.2f s", name, batch.batch_no, report.arrived, seconds)
        self._batches += 1
        if not replayed:  # it was sized by another driver, and loaded with more care
            self._admission.observe(size, seconds)
        self._shed_budget.observe(seconds, report.back_stage_seconds)
        self.await_learning()
        self._learning = self._learner.submit(self._learn, batch.batch_no, report)
        if self._batches <= SETTLING_BATCHES:
            self.await_learning()

    def warm_up(self) -> None:
        """Do all that a batch does, with next to no tuples, and load nothing: before a tuple can wait for it.

        Spark's shuffle, by which large batches alone travel, gets ready beside what comes next.
        """
        context = self._context(WarmUp(self._tables.event, self.fact), _NO_BATCH, shedding=False)
        columns = {name: kind.arrow() for name, kind in self._definition.tuples.columns.items()}
        with ThreadPoolExecutor(1, "warm-up") as beside:
            warmed = beside.submit(self._intake.warm_up, lambda: warm_up(context, columns), self._parts)
            warm_up_learning()
            while self._lookups.take_in() and not warmed.done():  # beside it: to publish all of R takes a while
                wait([warmed], _LOOK_SECONDS)
            faults = [fault for fault in warmed.result() if fault is not None]
        if faults:
            _log.warning(_NOT_WARM, self._definition.name, faults[0])
        self._learning = self._learner.submit(self._shuffle_nothing, context)

    def _shuffle_nothing(self, context: BatchContext) -> None:
        try:
            jobs_of(self._definition.name, self._spark)
            nothing = front_stage(self._spark, [[]] * self._parts, read_nothing, context, unreported)
            settle(nothing, context, unreported, shuffle=True)
        except Exception as error:
            _log.warning(_NOT_WARM, self._definition.name, error, exc_info=True)
        finally:
            self._lookups.release(_NO_BATCH)

    def take_mended_tables(self, connection: extensions.connection) -> None:
        """Look at the tables again: what blocked the stream may have been mended by changing them.

        Raises:
            SchemaMismatchError: they don't fit the pipeline.
            FreshetError: relations are others now, and the stream has to be started anew.
        """
        tables = check_tables(connection, self._definition)
        if [_read_from(spec) for spec in tables.relations] != [_read_from(spec) for spec in self._tables.relations]:
            raise FreshetError("Tables of master data have changed: the stream has to be started anew.")
        self._tables = replace(self._tables, fact=tables.fact)

    def _context(self, destination: Destination, batch_no: int, *, shedding: bool) -> BatchContext:
        # The first batches are slow for a reason of their own (nothing is hot): that is no overload.
        shedding = shedding and self._definition.shedding.policy != "off" and self._batches >= SETTLING_BATCHES
        shedding = shedding and self._intake.may_shed
        plans, fronts = self._lookups.plan_for_batch(batch_no)
        return BatchContext(
            warehouse_url=self._url,
            destination=destination,
            parts=self._parts,
            lookups=plans,
            fronts=fronts,
            back_stage_seconds=self._shed_budget.back_stage_seconds if shedding else None,
        )

    def _learn(self, batch_no: int, report: BatchReport) -> None:
        """Take what a batch found out. It is committed: nothing that goes wrong here may have it loaded again."""
        try:
            self._lookups.learn(report, batch_no)
        except Exception:
            _log.exception("%s: could not learn from batch %d", self._definition.name, batch_no)
        finally:
            self._lookups.release(batch_no)


def _ends(
    batch: batch_ledger.OpenBatch, tasks: Sequence[Sequence[PlannedSlice]], report: BatchReport
) -> list[RangeEnd]:
    """What became of each range: of all its slices, every one of which a task must have told of."""
    told = report.pieces()
    planned = {piece for pieces in tasks for piece in pieces}
    if told.keys() != planned:
        raise AssertionError(f"batch {batch.batch_no}: planned were {len(planned)} slices, read were {len(told)}")
    records = [0] * len(batch.ranges)
    reasons: list[str | None] = [None] * len(batch.ranges)
    marks: list[RecordMark | None] = [None] * len(batch.ranges)
    lost = set(batch.lost)
    for piece in planned:
        records[piece.range_no] += told[piece].records
        reasons[piece.range_no] = reasons[piece.range_no] or told[piece].unreadable
        marks[piece.range_no] = max(filter(None, (marks[piece.range_no], told[piece].mark)), default=None)
        if told[piece].unreadable and piece.is_loaded_in_part:
            lost.add(piece.range_no)  # some of it was removed; what was still there is loaded
    return [
        RangeEnd(None if number in lost else count, reason, mark)
        for number, (count, reason, mark) in enumerate(zip(records, reasons, marks, strict=True))
    ]


def waited_seconds(ranges: Sequence[SourceRange], began_at: float) -> float | None:
    """Seconds from the landing of a batch's tuples to its begin, on average over their bytes; None if not known."""
    known = [(each.modified_ns / 1e9, each.bytes) for each in ranges if each.modified_ns is not None]
    size = sum(length for _, length in known)
    return max(began_at - sum(landed * length for landed, length in known) / size, 0.0) if size else None


def _read_from(spec: RelationSpec) -> tuple[object, ...]:
    """What a lookup knows of R's definition; sizes, which change all the time, left out."""
    return spec.relation, spec.key, spec.fetched, spec.validity, spec.declared
