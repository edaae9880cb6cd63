"""Runs a pipeline's streaming query, and starts it anew when that is called for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING

from spark_jobs.driver.heartbeat import Wanted
from spark_jobs.errors import WriterFencedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_log = logging.getLogger(__name__)

POLL_SECONDS = 1


class QueryRestart(Exception):  # noqa: N818 - not an error: a batch ends the query so that it starts with other options
    """Raised at the start of a batch, before anything is written."""


class End(Enum):
    """Why a query ended."""

    FINISHED = auto()
    RESTART = auto()
    DRAIN = auto()
    FENCED = auto()
    FAILED = auto()


class StreamQuery:
    """One life of the streaming query.

    Args:
        make_writer: makes the query's writer, without its batch function and trigger.
        load_batch: loads one micro-batch; raises QueryRestart where the query should start anew.
        wanted: what the warehouse wants of the driver now.
    """

    def __init__(
        self,
        make_writer: Callable[[], DataStreamWriter],
        load_batch: Callable[[DataFrame, int], None],
        wanted: Callable[[], Wanted],
    ) -> None:
        self._make_writer = make_writer
        self._load_batch = load_batch
        self._wanted = wanted
        self._leaving = threading.Event()
        self.error: BaseException | None = None

    def run(self, *, available_now: bool) -> End:
        """Run until the query ends or has to.

        Args:
            available_now: load what has landed and finish, instead of going on for ever.
        """
        trigger = {"availableNow": True} if available_now else {"processingTime": "0 seconds"}
        query = self._make_writer().foreachBatch(self._guarded).trigger(**trigger).start()
        try:
            while not query.awaitTermination(POLL_SECONDS):
                wanted = self._wanted()
                if wanted == "fenced":
                    return End.FENCED
                if wanted == "draining" and not available_now:
                    self._leave(query)
                    return End.DRAIN
        except Exception as error:
            return self._classified(error)
        finally:
            query.stop()
        return End.FINISHED

    def _guarded(self, tuples: DataFrame, batch: int) -> None:
        if self._leaving.is_set():
            raise QueryRestart
        try:
            self._load_batch(tuples, batch)
        except BaseException as error:
            self.error = error  # what Spark hands on is a text
            raise

    def _leave(self, query: StreamingQuery) -> None:
        """Let the query end between two batches: one that is cut off would have to be loaded again."""
        self._leaving.set()
        while query.isActive and query.status["message"] != "Waiting for data to arrive":
            time.sleep(0.05)

    def _classified(self, error: BaseException) -> End:
        cause = self.error or error
        if isinstance(cause, QueryRestart):
            return End.RESTART
        if isinstance(cause, WriterFencedError) or WriterFencedError.__name__ in str(cause):
            return End.FENCED
        self.error = cause
        return End.FAILED
