"""The life of a driver's process: it loads pipelines side by side, each in a thread of its own, and ends with the last.

They share Spark's context, its workers and the machine, and nothing else: each has its epoch, its ledger and its
heartbeat, waits for its own tables, is drained or fenced off alone, and fails alone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2
from psycopg2 import extensions
from py4j.protocol import Py4JError

from spark_jobs.control import driver_requests, drivers
from spark_jobs.definition import load_definition, spelling_notes
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.driver.waiting_for_schema import fitting_tables
from spark_jobs.errors import FreshetError, PlatformError, WarehouseUnavailableError
from spark_jobs.settings import Home
from spark_jobs.warehouse.connection import connect
from spark_jobs.warehouse.connection_pool import ConnectionPool

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)

_LISTENING_SECONDS = 0.25
_SPARK_LOOK_SECONDS = 1.0
_NO_SPARK = "Spark has stopped: its JVM was killed (kill -9, or no memory was left), or its context was stopped."


class DriverProcess:
    """This process as a driver.

    Args:
        home: the installation.
        warehouse_url: libpq URL of the warehouse.
        spark: waits for Spark's context.
    """

    def __init__(self, home: Home, warehouse_url: str, spark: Callable[[], SparkContext]) -> None:
        self._home = home
        self._url = warehouse_url
        self._start_spark = spark
        self._context: SparkContext | None = None  # once it has started
        self._looked_at_spark = 0.0
        self._loadings: dict[str, _Loading] = {}
        self._pool: ConnectionPool | None = None  # once it serves a driver's pipelines
        self._last_words: extensions.connection | None = None  # holds the launch lock until the process has ended

    def load(self, jobs: Iterable[StreamJob], *, once: bool) -> None:
        """Load these pipelines until all are drained, or with `once` until all that has landed is loaded.

        Raises:
            FreshetError: some could not be loaded. The others were.
            PlatformError: Spark has stopped, and none can be loaded.
        """
        for job in jobs:
            self._begin(job, lambda job: job.run(self._spark(), once=once, resume=True))
        try:
            while self._living():
                self._look_at_spark()
                time.sleep(_LISTENING_SECONDS)
        except KeyboardInterrupt:
            for loading in self._living():
                loading.job.abandon("stopped")
            raise
        self._raise_errors()

    def serve(self, pipeline: str) -> None:
        """Load a pipeline, and what the warehouse asks this driver to load besides, until all of it is drained.

        Args:
            pipeline: its name, or the path of its file.

        Raises:
            FreshetError: some could not be loaded. The others were.
            PlatformError: Spark has stopped, and none can be loaded.
        """
        first = load_definition(pipeline)
        driver, connection = first.driver_name, None
        self._pool = ConnectionPool(self._url, f"freshet driver {driver}")
        self._take_up(pipeline)
        while True:
            self._look_at_spark()
            try:
                if connection is None:
                    connection = connect(self._url, application_name=f"freshet driver {driver}")
                    connection.autocommit = True
                self._take_up_asked(connection, driver)
                if not self._living() and self._is_dismissed(connection, driver):
                    break
            except (psycopg2.Error, WarehouseUnavailableError) as error:
                _log.warning("driver %s: the warehouse does not answer: %s", driver, error)
                connection = None
                if not self._living():
                    break
            time.sleep(_LISTENING_SECONDS)
        self._raise_errors()

    def _spark(self) -> SparkContext:
        self._context = self._start_spark()
        return self._context

    def _look_at_spark(self) -> None:
        """End what is being loaded if Spark has stopped: an idle pipeline asks nothing of it, and would never notice.

        Raises:
            PlatformError: it has stopped.
        """
        now = time.monotonic()
        if self._context is None or now - self._looked_at_spark < _SPARK_LOOK_SECONDS:
            return
        self._looked_at_spark = now
        if _runs(self._context):
            return
        for loading in self._living():
            try:
                loading.job.abandon("failed", _NO_SPARK)
            except (psycopg2.Error, WarehouseUnavailableError) as untold:
                _log.warning("%s: the driver's end was not recorded: %s", loading.name, untold)
        raise PlatformError(_NO_SPARK)

    def _take_up_asked(self, connection: extensions.connection, driver: str) -> None:
        living = {loading.name for loading in self._living()}
        for name in driver_requests.asked_pipelines(connection, driver):
            if name not in living:  # else it is about to take the pipeline over, or to end
                try:
                    self._take_up(name)
                except FreshetError as error:
                    self._refuse(name, error)

    def _take_up(self, pipeline: str) -> None:
        job = StreamJob(load_definition(pipeline), self._home, self._url, self._pool)
        for note in spelling_notes([pipeline]):
            _log.warning("%s", note)
        self._begin(job, self._load_when_fitting)

    def _load_when_fitting(self, job: StreamJob) -> None:
        try:
            with fitting_tables(job.definition, self._home, job.pool, job.check) as outcome:
                if outcome == "fitting":
                    job.run(self._spark(), once=False)
        except Exception as error:
            self._refuse(job.definition.name, error)
            raise

    def _refuse(self, pipeline: str, error: Exception) -> None:
        """Tell who has asked for it, and still does, that the pipeline can't be loaded.

        If it is the only one, this process ends, which tells as much.
        """
        alone = {loading.name for loading in self._living()} <= {pipeline}
        try:
            with closing(connect(self._url, application_name=f"freshet driver {pipeline}")) as connection:
                driver = driver_requests.asked_driver(connection, pipeline)
                if driver is None:
                    return
                driver_requests.ask(connection, pipeline, None)
                if not alone:
                    epoch = drivers.take_over(connection, pipeline, log_file=self._home.driver_log(driver))
                    drivers.finish(connection, pipeline, epoch, "failed", f"{type(error).__name__}: {error}")
        except (psycopg2.Error, FreshetError) as untold:
            _log.warning("%s: that it could not be taken up was not recorded: %s", pipeline, untold)

    def _is_dismissed(self, connection: extensions.connection, driver: str) -> bool:
        """Whether nothing is asked of it any more; if so, nothing will be: who asks next waits until it has ended."""
        driver_requests.lock_launch(connection, driver)
        if driver_requests.asked_pipelines(connection, driver):
            driver_requests.unlock_launch(connection, driver)
            return False
        self._last_words = connection
        return True

    def _begin(self, job: StreamJob, load: Callable[[StreamJob], None]) -> None:
        loading = self._loadings[job.definition.name] = _Loading(job, load)
        loading.start()

    def _living(self) -> list[_Loading]:
        return [loading for loading in self._loadings.values() if loading.is_alive()]

    def _raise_errors(self) -> None:
        errors = [loading.error for loading in self._loadings.values() if loading.error is not None]
        if len(errors) == 1 or any(not isinstance(error, FreshetError) for error in errors):
            raise errors[0]
        if errors:
            raise FreshetError("\n".join(map(str, errors)))


class _Loading(threading.Thread):
    """Loads one pipeline; what it failed with is kept. The process may end without it."""

    def __init__(self, job: StreamJob, load: Callable[[StreamJob], None]) -> None:
        super().__init__(name=job.definition.name, daemon=True)
        self.job = job
        self.error: BaseException | None = None
        self._load = load

    def run(self) -> None:
        try:
            self._load(self.job)
        except BaseException as error:
            _log.error("%s: %s", self.name, error, exc_info=not isinstance(error, FreshetError))
            # The frames of its traceback would keep hot sets and broadcasts alive for as long as the process lives.
            error.__cause__ = error.__context__ = None
            self.error = error.with_traceback(None)
        finally:
            self.job.disconnect()


def _runs(context: SparkContext) -> bool:
    java = context._jsc  # None once Python has stopped it
    try:
        return java is not None and not java.sc().isStopped()
    except (Py4JError, OSError):  # its JVM does not answer
        return False
