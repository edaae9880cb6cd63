"""A pipeline that does not fit its tables: its driver says so, and waits until they fit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Literal

import psycopg2
from psycopg2 import extensions

from spark_jobs.control import drivers
from spark_jobs.control.registration import register_pipeline
from spark_jobs.definition import PipelineDefinition
from spark_jobs.driver.heartbeat import Heartbeat
from spark_jobs.errors import SchemaMismatchError, WarehouseUnavailableError, WriterFencedError
from spark_jobs.settings import Home
from spark_jobs.warehouse.connection_pool import Borrower, ConnectionPool

_log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
_POLL_SECONDS = 0.25
_FITS = "Its tables fit now; the driver is getting ready, and goes on by itself."


@contextmanager
def fitting_tables(
    definition: PipelineDefinition,
    home: Home,
    pool: ConnectionPool,
    check: Callable[[], None],
    look_seconds: float = LOOK_SECONDS,
) -> Iterator[Literal["fitting", "drained"]]:
    """Enter when the pipeline fits its tables.

    Where it does not, this process becomes the pipeline's driver, blocked for the reason that the check gives. It stays
    that until it takes the pipeline over anew, when it is ready to load.

    Args:
        definition: the pipeline.
        home: the installation.
        pool: connections to the warehouse.
        check: compares the pipeline with the warehouse's tables, as `StreamJob.check` does.
        look_seconds: time from one comparison to the next.

    Yields:
        `drained` if the driver was told to end before the tables fitted.

    Raises:
        WriterFencedError: a newer driver has taken over meanwhile.
    """
    try:
        check()
    except SchemaMismatchError as error:
        reason = str(error)
    else:
        yield "fitting"
        return
    with _Blocked(definition, home, pool, reason) as blocked:
        yield "fitting" if blocked.wait(check, look_seconds) else "drained"


class _Blocked:
    """This process as the blocked driver of a pipeline; a context."""

    def __init__(self, definition: PipelineDefinition, home: Home, pool: ConnectionPool, reason: str) -> None:
        self._session = Borrower(pool)
        self._pipeline = definition.name
        with self._connected() as connection:
            register_pipeline(
                connection, definition.name, definition.freshness.target, definition.model_dump_json(by_alias=True)
            )
            log = home.driver_log(definition.driver_name)
            self._epoch = drivers.take_over(connection, definition.name, log_file=log)
        self._tell(reason)
        # It ends by itself when this process, or another one, takes the pipeline over anew.
        beat = partial(drivers.heartbeat, pipeline=self._pipeline, epoch=self._epoch)
        self._heartbeat = Heartbeat(pool, self._pipeline, beat)

    def __enter__(self) -> _Blocked:
        self._heartbeat.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._heartbeat.stop()
        state: drivers.EndState = "stopped" if error is None else "failed"
        try:
            with self._connected() as connection:
                drivers.finish(connection, self._pipeline, self._epoch, state, _words(error))
        except (psycopg2.Error, WarehouseUnavailableError) as unrecorded:  # the driver's own error tells more
            _log.warning("%s: the driver's end was not recorded: %s", self._pipeline, unrecorded)

    def wait(self, check: Callable[[], None], look_seconds: float) -> bool:
        """Compare again and again; True when the pipeline fits, False when the driver is to end."""
        while self._pause(look_seconds):
            try:
                check()
            except SchemaMismatchError as error:
                self._tell(str(error))
            except (psycopg2.Error, WarehouseUnavailableError) as error:
                _log.warning("%s: the warehouse does not answer: %s", self._pipeline, error)
            else:
                self._tell(_FITS)
                return True
        return False

    def _pause(self, seconds: float) -> bool:
        """Let time go by; whether the driver is to go on then."""
        until = time.monotonic() + seconds
        while self._heartbeat.wanted == "running" and time.monotonic() < until:
            time.sleep(min(_POLL_SECONDS, seconds))
        if self._heartbeat.wanted == "fenced":
            raise WriterFencedError(
                f"Another driver has taken over pipeline {self._pipeline} (this one had epoch {self._epoch}). "
                "It goes on; nothing is to be done."
            )
        return self._heartbeat.wanted == "running"

    def _tell(self, reason: str) -> None:
        """Show why the driver waits. Where the warehouse can't be told, the next look tells it, if it still waits."""
        _log.warning("%s: %s", self._pipeline, reason)
        with suppress(psycopg2.Error, WarehouseUnavailableError), self._connected() as connection:
            drivers.block(connection, self._pipeline, self._epoch, reason)

    @contextmanager
    def _connected(self) -> Iterator[extensions.connection]:
        try:
            yield self._session.connection()
        except BaseException:
            self._session.drop()
            raise
        self._session.rest()


def _words(error: BaseException | None) -> str | None:
    return None if error is None else f"{type(error).__name__}: {error}"
