"""The driver's heartbeat: tells the warehouse that it lives, and learns what is wanted of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Literal

import psycopg2
from psycopg2 import extensions

from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.warehouse.connection_pool import Borrower, ConnectionPool

_log = logging.getLogger(__name__)

Wanted = Literal["running", "draining", "fenced"]


class Heartbeat(threading.Thread):
    """Beats every two seconds until it is stopped, or its driver is fenced, while the driver's own thread may hang.

    Neither a warehouse that is away nor any other error ends it: the next beat tries again.

    Args:
        pool: connections to the warehouse.
        pipeline: the pipeline driven.
        beat: tells the warehouse, over a connection, that the driver lives; what is wanted of it is the result.
        when_fenced: called once when the driver is fenced, from this thread: it may hang in a batch.
    """

    INTERVAL_SECONDS = 2.0

    def __init__(
        self,
        pool: ConnectionPool,
        pipeline: str,
        beat: Callable[[extensions.connection], Wanted],
        when_fenced: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self.wanted: Wanted = "running"
        self._session = Borrower(pool)
        self._pipeline = pipeline
        self._beat = beat
        self._when_fenced = when_fenced
        self._ended = threading.Event()

    def run(self) -> None:
        """Beat."""
        while not self._ended.is_set():
            try:
                self._beat_once()
            except (psycopg2.Error, WarehouseUnavailableError) as error:
                self._session.drop()
                _log.warning("heartbeat of %s: the warehouse does not answer: %s", self._pipeline, error)
            except Exception:  # a driver whose beat ended unnoticed would be taken for dead
                self._session.drop()
                _log.exception("heartbeat of %s: it goes on", self._pipeline)
            self._ended.wait(self.INTERVAL_SECONDS)

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._ended.set()
        self.join()

    def _beat_once(self) -> None:
        self.wanted = self._beat(self._session.connection())
        self._session.rest()
        if self.wanted == "fenced":
            self._ended.set()  # for good
            self._when_fenced()
