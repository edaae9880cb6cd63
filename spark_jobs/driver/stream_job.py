"""The life of a stream's driver: it gets ready, takes the pipeline over, loads, and ends."""

from __future__ import annotations

import logging
import time
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING

import psycopg2
from psycopg2 import extensions

from spark_jobs.control import driver_requests, drivers
from spark_jobs.control.cluster import settle_in_cluster
from spark_jobs.control.registration import check_registration, register_pipeline
from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.shapes import AccumulatedStreams, JoinedStreams, OneStream
from spark_jobs.driver.accumulated_streams import AccumulatedStreamsIntake
from spark_jobs.driver.batch_run import BatchRun
from spark_jobs.driver.checks import PipelineTables, check_tables
from spark_jobs.driver.heartbeat import Heartbeat, Wanted
from spark_jobs.driver.intake import Intake
from spark_jobs.driver.join_folder import check_join_state
from spark_jobs.driver.joined_streams import JoinedStreamsIntake
from spark_jobs.driver.loop import StreamLoop
from spark_jobs.driver.one_stream import OneStreamIntake
from spark_jobs.driver.session import jobs_of
from spark_jobs.errors import SchemaMismatchError, StateDamagedError, WarehouseUnavailableError, WriterFencedError
from spark_jobs.ledger.partition_positions import PartitionPositions
from spark_jobs.lookup.driven_lookups import DrivenLookups
from spark_jobs.settings import Home
from spark_jobs.source.kind import SourceStream
from spark_jobs.source.kinds import kind_of
from spark_jobs.source.landed_source import LandedSource, RemovesLoaded, SingleSource
from spark_jobs.source.landed_streams import LandedStreams
from spark_jobs.source.slice_reading import SliceReader
from spark_jobs.warehouse.connection import connect
from spark_jobs.warehouse.connection_pool import Borrower, ConnectionPool

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)


class StreamJob:
    """Loads one pipeline's stream, exactly once, until it is drained or fenced off.

    Args:
        definition: the pipeline.
        home: the installation.
        warehouse_url: libpq URL of the warehouse.
        pool: connections to it, where other pipelines use them, too.

    Attributes:
        definition: as it was given.
        pool: connections to the warehouse.
    """

    def __init__(
        self, definition: PipelineDefinition, home: Home, warehouse_url: str, pool: ConnectionPool | None = None
    ) -> None:
        self.definition = definition
        self.pool = pool or ConnectionPool(warehouse_url, f"freshet driver {definition.driver_name}")
        self._home = home
        self._url = warehouse_url
        self._session = Borrower(self.pool)
        self._tables: PipelineTables | None = None
        self._epoch = 0

    def check(self) -> None:
        """Compare the pipeline with what is registered in the warehouse, its join's state, and its tables.

        Raises:
            PipelineDefinitionError: it may not be registered so, or its state was made for other streams; the message
                says what to do.
            SchemaMismatchError: a table is missing or does not fit; the message says what to do.
            WarehouseUnavailableError: the warehouse does not answer.
        """
        connection, definition = self._session.connection(), self.definition
        try:
            with connection, connection.cursor() as cursor:
                stated = definition.model_dump(mode="json", by_alias=True)
                check_registration(cursor, definition.name, stated)
            with suppress(StateDamagedError):  # It may be brought back: the stream is blocked until then.
                check_join_state(connection, definition, self._home)
            self._tables = check_tables(connection, definition)
        except SchemaMismatchError:
            self._session.rest()  # which rolls back: the tables must not be locked while they are fixed
            raise

    def run(self, spark: SparkContext, *, once: bool, resume: bool = False) -> None:
        """Load until drained, or with `once` until all that has landed is loaded.

        Args:
            spark: runs the tasks.
            once: end when everything that has landed is loaded.
            resume: take back a former wish to drain. Whoever launches a driver for others says that in the
                warehouse beforehand, so that a wish to drain that comes meanwhile is not lost.

        Raises:
            WriterFencedError: a newer driver has taken the pipeline over.
            FreshetError: loading failed again and again.
        """
        name = self.definition.name
        jobs_of(name, spark)
        batches, source, lookups = self._prepare(spark, resume=resume)
        try:
            epoch = self._take_over(spark, batches, lookups)

            def beat(connection: extensions.connection) -> Wanted:
                return drivers.heartbeat(connection, name, epoch, source.unread)

            self._session.rest()
            heartbeat = Heartbeat(self.pool, name, beat, when_fenced=partial(spark.cancelJobsWithTag, name))
            heartbeat.start()
            try:
                loop = StreamLoop(
                    *(name, epoch, self._session, lambda: heartbeat.wanted),
                    *(source, self._removals(), batches),
                )
                loop.run(once=once)
            except WriterFencedError as error:
                self._finish_failed(epoch, "fenced", str(error))
                raise
            except BaseException as error:
                self._finish_failed(epoch, "failed", f"{type(error).__name__}: {error}")
                raise
            else:
                beat(self._session.connection())  # what it told last was unread has been loaded since
                drivers.finish(self._session.connection(), name, epoch, "stopped")
            finally:
                heartbeat.stop()
        finally:
            batches.await_learning()  # it uses what the lookups have published
            lookups.close()

    def _prepare(self, spark: SparkContext, *, resume: bool) -> tuple[BatchRun, LandedSource, DrivenLookups]:
        """Get ready all that batches share: a former driver goes on until the pipeline is taken over."""
        if self._tables is None:
            self.check()
        assert self._tables is not None
        definition, connection = self.definition, self._session.connection()
        settle_in_cluster(connection)
        register_pipeline(
            connection, definition.name, definition.freshness.target, definition.model_dump_json(by_alias=True)
        )
        if resume:
            driver_requests.request_state(connection, definition.name, "running")
        parts = spark.defaultParallelism
        lookups = DrivenLookups(definition, self._tables.relations, self._home, self.pool, spark, parts)
        try:
            lookups.begin(connection)
            self._session.rest()  # others may need it while all is warmed up
            source, intake = self._intake(spark, parts)
            batches = BatchRun(definition, self._tables, spark, self._url, source, intake, lookups, parts)
            started = time.perf_counter()
            batches.warm_up()
        except BaseException:
            lookups.close()
            raise
        _log.info("%s: ready to take over after %.1f s of warming up", definition.name, time.perf_counter() - started)
        return batches, source, lookups

    def _take_over(self, spark: SparkContext, batches: BatchRun, lookups: DrivenLookups) -> int:
        """Become the pipeline's driver; the epoch."""
        name = self.definition.name
        epoch = drivers.take_over(
            self._session.connection(),
            name,
            log_file=self._home.driver_log(self.definition.driver_name),
            spark_application_id=spark.applicationId,
            spark_ui_url=spark.uiWebUrl,
        )
        _log.info("%s: driver of epoch %d", name, epoch)
        self._epoch = epoch
        batches.epoch = epoch
        lookups.start_watching(epoch)
        return epoch

    def _intake(self, spark: SparkContext, parts: int) -> tuple[LandedSource, Intake]:
        """Where the pipeline's tuples come from, and how they come to the front stage."""
        definition = self.definition
        readers = SliceReader.of_streams(definition)
        match definition.shape:
            case OneStream():
                [stream] = SourceStream.all_of(definition, self._home)
                return self._landed(stream), OneStreamIntake(definition.name, spark, readers)
            case JoinedStreams() as shape:
                source = self._landed_streams()
                return source, JoinedStreamsIntake(definition.name, shape, spark, source, readers, self._home, parts)
            case AccumulatedStreams() as shape:
                source = self._landed_streams()
                return source, AccumulatedStreamsIntake(definition, shape, spark, source, readers)

    def _landed_streams(self) -> LandedStreams:
        """What is new of several streams."""
        streams = SourceStream.all_of(self.definition, self._home)
        return LandedStreams(dict(zip(self.definition.streams, map(self._landed, streams), strict=True)))

    def _landed(self, stream: SourceStream) -> SingleSource:
        """What is new of a stream."""
        name, connection = self.definition.name, self._session.connection
        positions = PartitionPositions(name, connection, lambda: self._epoch, prefix=stream.prefix)
        return kind_of(stream.source).landed(stream, positions)

    def _removals(self) -> list[RemovesLoaded]:
        """What removes what is loaded, of each source that does not keep it."""
        streams = SourceStream.all_of(self.definition, self._home)
        removals = (kind_of(stream.source).removal(stream) for stream in streams)
        return [each for each in removals if each is not None]

    def abandon(self, state: drivers.EndState, error: str | None = None) -> None:
        """Tell the warehouse how the driver has ended, from another thread: the process ends without it."""
        with closing(connect(self._url, application_name=f"freshet driver {self.definition.name}")) as connection:
            drivers.finish(connection, self.definition.name, self._epoch, state, error)

    def _finish_failed(self, epoch: int, state: drivers.EndState, error: str) -> None:
        """Record the end. The error tells more than that it could not be recorded."""
        try:
            drivers.finish(self._session.connection(), self.definition.name, epoch, state, error)
        except (psycopg2.Error, WarehouseUnavailableError) as unrecorded:
            _log.warning("%s: the driver's end was not recorded: %s", self.definition.name, unrecorded)

    def disconnect(self) -> None:
        """Let go of its connection to the warehouse."""
        self._session.rest()
