"""The driver's side of a stream: takes the pipeline over, plans each micro-batch, keeps the ledger."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg2
import pyarrow as pa
from psycopg2 import extensions

from spark_jobs.definition import PipelineDefinition
from spark_jobs.driver.admission import Admission
from spark_jobs.driver.checks import PipelineTables, check_tables
from spark_jobs.driver.driven_lookups import DrivenLookups
from spark_jobs.driver.heartbeat import Heartbeat
from spark_jobs.driver.obstacles import Obstacle, obstacle
from spark_jobs.driver.setbacks import Setbacks
from spark_jobs.driver.shed_budget import ShedBudget
from spark_jobs.driver.stream_query import End, QueryRestart, StreamQuery
from spark_jobs.errors import FreshetError, SchemaMismatchError, WarehouseUnavailableError, WriterFencedError
from spark_jobs.hot_set.front_stage.hot_tuples import rehearse_learning
from spark_jobs.ledger import batch_ledger
from spark_jobs.loading.loading_transaction import StreamBatch
from spark_jobs.loading.rehearsal import Rehearsal
from spark_jobs.relation.relation_spec import RelationSpec
from spark_jobs.settings import Home
from spark_jobs.source.arrivals import ArrivalsReader, read_by_spark
from spark_jobs.source.log import batch_files, mean_landing, total_bytes
from spark_jobs.source.parquet_files import balanced_groups, parquet_reader
from spark_jobs.source.streaming import stream_tuples
from spark_jobs.stages.batch_context import BatchContext
from spark_jobs.stages.errors import told_by
from spark_jobs.stages.rehearsal import rehearse
from spark_jobs.stages.reports import BatchReport, ReportChannel
from spark_jobs.stages.tuples_way import settle
from spark_jobs.warehouse import drivers
from spark_jobs.warehouse.connection import connect
from spark_jobs.warehouse.registration import check_registration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_log = logging.getLogger(__name__)

SETTLING_BATCHES = 3
_LISTENING_SECONDS = 0.2


class StreamJob:
    """Loads one pipeline's stream, exactly once, until it is drained or fenced off.

    Args:
        definition: the pipeline.
        home: the installation.
        warehouse_url: libpq URL of the warehouse.
    """

    def __init__(self, definition: PipelineDefinition, home: Home, warehouse_url: str) -> None:
        self._definition = definition
        self._home = home
        self._url = warehouse_url
        self._connection: extensions.connection | None = None
        self._tables: PipelineTables | None = None

    def check(self) -> None:
        """Compare the pipeline with what is registered in the warehouse, and with its tables.

        Raises:
            PipelineDefinitionError: it may not be registered so; the message says what to do.
            SchemaMismatchError: a table is missing or does not fit; the message says what to do.
            WarehouseUnavailableError: the warehouse does not answer.
        """
        connection, definition = self._connect(), self._definition
        try:
            with connection, connection.cursor() as cursor:
                stated = definition.model_dump(mode="json", by_alias=True)
                check_registration(cursor, definition.name, stated, drivers.MAX_SILENCE)
            self._tables = check_tables(connection, definition)
        except SchemaMismatchError:
            connection.rollback()  # whoever mends the tables shall not find them locked
            raise

    def run(self, session: SparkSession, *, once: bool, resume: bool = False) -> None:
        """Load until drained, or with `once` until all that has landed is loaded.

        Args:
            session: the Spark session.
            once: end when everything that has landed is loaded.
            resume: take back a former wish to drain. Whoever launches a driver for others says that in the
                warehouse beforehand, so that a wish to drain that comes meanwhile is not lost.

        Raises:
            WriterFencedError: a newer driver has taken the pipeline over.
            FreshetError: loading failed again and again.
        """
        name = self._definition.name
        self._prepare(session, once=once, resume=resume)
        beat = partial(drivers.heartbeat, pipeline=name, epoch=self._epoch)
        heartbeat = Heartbeat(self._url, name, beat)
        heartbeat.start()
        try:
            self._run_queries(heartbeat)
        except WriterFencedError as error:
            self._finish_failed("fenced", str(error))
            raise
        except BaseException as error:
            self._finish_failed("failed", f"{type(error).__name__}: {error}")
            raise
        else:
            drivers.finish(self._connect(), name, self._epoch, "stopped")
        finally:
            heartbeat.stop()
            self._lookups.close()

    def _prepare(self, session: SparkSession, *, once: bool, resume: bool) -> None:
        """Get ready what all batches share, then take the pipeline over: a former driver goes on until then."""
        if self._tables is None:
            self.check()
        assert self._tables is not None
        definition, spark = self._definition, session.sparkContext
        definition.source.resolved_path(self._home).mkdir(parents=True, exist_ok=True)  # Spark wants it to be there
        connection = self._connect()
        drivers.register_pipeline(
            connection, definition.name, definition.freshness.target, definition.model_dump_json(by_alias=True)
        )
        if resume:
            drivers.request_state(connection, definition.name, "running")
        self._session = session
        with ThreadPoolExecutor(1, "workers") as beside:
            # Python's workers load their code while Java loads its own, each on a core.
            workers = beside.submit(spark.parallelize([None], 1).count)
            session.range(1).collect()  # a cluster's cores are known only when its executors have come
            self._parts = spark.defaultParallelism
            relations = self._tables.relations
            self._lookups = DrivenLookups(definition, relations, self._home, self._url, spark, self._parts)
            self._lookups.begin(connection)
            workers.result()
        self._reports = ReportChannel(spark)
        self._admission = Admission(definition.freshness.target)
        self._shed_budget = ShedBudget(definition.freshness.target, len(definition.lookups))
        self._setbacks = Setbacks()
        self._blocked = False
        self._batches = 0
        self._draining = once
        self._epoch = 0  # of nobody: the warm-up loads nothing
        started = time.perf_counter()
        self._warm_up()
        _log.info("%s: ready to take over after %.1f s of warming up", definition.name, time.perf_counter() - started)
        self._epoch = drivers.take_over(
            connection,
            definition.name,
            log_file=str(self._home.logs / f"driver-{definition.name}.log"),
            spark_application_id=spark.applicationId,
            spark_ui_url=spark.uiWebUrl,
        )
        _log.info("%s: driver of epoch %d", definition.name, self._epoch)
        self._lookups.start_watching(self._epoch)

    def _run_queries(self, heartbeat: Heartbeat) -> None:
        while True:
            query = StreamQuery(self._writer, self._load_batch, lambda: heartbeat.wanted)
            match query.run(available_now=self._draining):
                case End.FINISHED:
                    return
                case End.DRAIN:
                    _log.info("%s: draining", self._definition.name)
                    self._draining = True
                case End.FENCED:
                    raise WriterFencedError(
                        f"Another driver has taken over pipeline {self._definition.name} "
                        f"(this one had epoch {self._epoch}). It goes on; nothing is to be done."
                    )
                case End.FAILED:
                    self._recover(query.error, heartbeat)
                case End.RESTART:
                    pass

    def _writer(self) -> DataStreamWriter:
        tuples = stream_tuples(self._session, self._definition, self._home, self._admission.batch_bytes)
        checkpoint = self._home.checkpoint(self._definition.name)
        return tuples.writeStream.queryName(self._definition.name).option("checkpointLocation", str(checkpoint))

    def _load_batch(self, tuples: DataFrame, spark_batch: int) -> None:
        """Load one micro-batch. Called by Spark, again after a failure with the same number and tuples."""
        if self._admission.revise():
            _log.info("%s: a batch now takes %d bytes", self._definition.name, self._admission.batch_bytes)
            raise QueryRestart
        began_at, started = time.time(), time.perf_counter()
        connection = self._connect()
        if self._blocked:
            self._take_mended_tables(connection)
        tables = self._tables
        assert tables is not None
        opened = batch_ledger.open_batch(connection, self._definition.name, self._epoch, spark_batch, tables.fact)
        self._reports.receive()  # of a try that failed: what it found is older than what this one knows
        context = self._context(opened.batch_no, careful=opened.replayed)
        files = list(batch_files(self._home.checkpoint(self._definition.name), spark_batch))
        if not files:
            raise FreshetError(f"Spark's source log names no files for batch {spark_batch}; the checkpoint is damaged.")
        read, given = self._arrivals(tuples, files)
        settle(given, read, context, self._reports.send)
        report = BatchReport(self._reports.receive())
        landed_at = mean_landing(files)
        waited = None if landed_at is None else max(began_at - landed_at, 0.0)
        statistics = report.statistics(context.lookups, waited)
        batch_ledger.close_batch(connection, opened.batch_no, statistics, tables.fact)
        seconds = time.perf_counter() - started
        _log.info("%s: batch %d: %d tuples in %.2f s", self._definition.name, opened.batch_no, report.arrived, seconds)
        self._setbacks.forget()
        self._unblock(connection)
        self._batches += 1
        self._learn(report, opened.batch_no, files, seconds)

    def _learn(self, report: BatchReport, batch_no: int, files: list[Path], seconds: float) -> None:
        """Take what a batch found out. It is committed: nothing that goes wrong here may have it loaded again."""
        try:
            self._admission.observe(total_bytes(files), seconds)
            self._shed_budget.observe(seconds, report.back_stage_seconds)
            self._lookups.learn(report, batch_no)
        except Exception:
            _log.exception("%s: could not learn from the last batch", self._definition.name)
        finally:
            self._lookups.release(batch_no)

    def _warm_up(self) -> None:
        """Do all that a batch does, with next to no tuples, and load nothing: before a tuple can wait for it."""
        assert self._tables is not None
        context = self._context(0, careful=False)
        rehearsed = replace(context, destination=Rehearsal(self._tables.event, self._tables.fact))
        columns = {name: kind.arrow() for name, kind in self._definition.source.columns.items()}
        workers = self._session.sparkContext.parallelize(range(self._parts), self._parts)
        with ThreadPoolExecutor(1, "rehearsal") as beside:
            rehearsal = beside.submit(workers.map(lambda _: rehearse(rehearsed, columns)).collect)
            rehearse_learning()
            tasks = self._session.range(0, self._parts, 1, self._parts)
            settle(tasks, lambda batches: iter(()), context, self._reports.send)
            faults = [fault for fault in rehearsal.result() if fault is not None]
        if faults:
            name = self._definition.name
            _log.warning("%s: could not rehearse, so the first batches will be slower: %s", name, faults[0])
        self._lookups.release(0)
        self._reports.receive()

    def _arrivals(self, tuples: DataFrame, files: list[Path]) -> tuple[ArrivalsReader, DataFrame]:
        """Who reads the batch's tuples, and the DataFrame that is handed to the tasks for it."""
        source = self._definition.source
        if source.format != "parquet":
            return read_by_spark, tuples
        groups = balanced_groups(files, self._parts)
        schema = pa.schema([(name, kind.arrow()) for name, kind in source.columns.items()])
        return parquet_reader(groups, schema), self._session.range(0, len(groups), 1, max(len(groups), 1))

    def _context(self, batch_no: int, *, careful: bool) -> BatchContext:
        assert self._tables is not None
        # The first batches are slow for a reason of their own (nothing is hot): that is no overload.
        settled = self._batches >= SETTLING_BATCHES
        shedding = self._definition.shedding.policy != "off" and not self._draining and settled
        plans, fronts = self._lookups.plan_for_batch(batch_no)
        return BatchContext(
            warehouse_url=self._url,
            destination=StreamBatch(self._tables.event, self._tables.fact, self._epoch, batch_no, careful),
            parts=self._parts,
            lookups=plans,
            fronts=fronts,
            back_stage_seconds=self._shed_budget.back_stage_seconds if shedding else None,
        )

    def _recover(self, error: BaseException | None, heartbeat: Heartbeat) -> None:
        """After a batch that could not be loaded, wait until it is to be tried again.

        Raises:
            FreshetError: it is given up.
        """
        assert error is not None
        name = self._definition.name
        _log.error("%s: a batch failed: %s", name, error)
        if self._connection is not None:
            self._connection.close()  # it may be lost without psycopg2 knowing
        found = obstacle(error)
        if found is Obstacle.BLOCKED:
            self._block(told_by(error))
        pause = self._setbacks.pause(found, time.monotonic(), ends=self._draining)
        if pause is None:
            raise FreshetError(
                f"Pipeline {name} could not be loaded, again and again. The last error: {told_by(error)}. "
                f"What has landed is kept, and the next driver goes on with it."
            ) from error
        until = time.monotonic() + pause
        while time.monotonic() < until and heartbeat.wanted != "fenced":
            if heartbeat.wanted == "draining" and not self._draining:
                self._draining = True  # perhaps all is well by now
                break
            time.sleep(_LISTENING_SECONDS)

    def _block(self, reason: str) -> None:
        """Show that the stream can't go on. A server that takes no writes at all can't be told, and is seen so."""
        self._blocked = True
        with suppress(psycopg2.Error, WarehouseUnavailableError):
            drivers.block(self._connect(), self._definition.name, self._epoch, reason)

    def _unblock(self, connection: extensions.connection) -> None:
        """Show that the stream goes on. The batch is committed: an error here must not have it loaded again."""
        if self._blocked:
            with suppress(psycopg2.Error):
                drivers.unblock(connection, self._definition.name, self._epoch)
                self._blocked = False

    def _take_mended_tables(self, connection: extensions.connection) -> None:
        """Look at the tables again: what blocked the stream may have been mended by changing them."""
        assert self._tables is not None
        tables = check_tables(connection, self._definition)
        if [_read_from(spec) for spec in tables.relations] != [_read_from(spec) for spec in self._tables.relations]:
            raise FreshetError("Tables of master data have changed: the stream has to be started anew.")
        self._tables = replace(self._tables, fact=tables.fact)

    def _finish_failed(self, state: drivers.EndState, error: str) -> None:
        """Record the end. The error tells more than that it could not be recorded."""
        try:
            drivers.finish(self._connect(), self._definition.name, self._epoch, state, error)
        except (psycopg2.Error, WarehouseUnavailableError) as unrecorded:
            _log.warning("%s: the driver's end was not recorded: %s", self._definition.name, unrecorded)

    def _connect(self) -> extensions.connection:
        """The driver's connection to the warehouse; a new one where the former was lost."""
        if self._connection is not None and not self._connection.closed:
            return self._connection
        self._connection = connect(self._url, application_name=f"freshet driver {self._definition.name}")
        return self._connection


def _read_from(spec: RelationSpec) -> tuple[object, ...]:
    """What a lookup knows of R's definition; sizes, which change all the time, left out."""
    return spec.relation, spec.key, spec.fetched, spec.validity
