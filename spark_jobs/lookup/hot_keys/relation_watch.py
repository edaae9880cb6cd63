"""The driver's watch over its relations: a thread that brings their changes into the hot sets, step by step."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import psycopg2
from psycopg2 import extensions

from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.lookup.changes.triggers import look_at_relations, watch_relations
from spark_jobs.lookup.hot_keys.cache_table import write_cache_rows
from spark_jobs.lookup.hot_keys.lookup_watch import LookupWatch
from spark_jobs.lookup.relation.reading_connection import ReadingConnection
from spark_jobs.warehouse.connection_pool import Borrower, ConnectionPool

_log = logging.getLogger(__name__)

# Triggers can be dropped, tables get new partitions: missing ones are installed again at this interval.
TRIGGERS_CHECKED_SECONDS = 30.0
_SHORTEST_INTERVAL, _LONGEST_INTERVAL = 0.25, 5.0
# A driver of many pipelines keeps no connection for each relation that does not change.
_IDLE_SECONDS = 10.0
# A change may come right after a look, and its tuples have to be read and published.
_LOOKS_WITHIN_NOTICE = 4
_LONGEST_END_SECONDS = 30.0
# The first batch is worth this wait: R may have been read whole by now, and without it nearly nothing is hot.
_FIRST_LOOK_SECONDS = 5.0


class RelationWatch(threading.Thread):
    """Looks for changes of all relations of a pipeline again and again.

    A warehouse that is away is no reason to end: what has changed meanwhile is noticed when it is back.

    Args:
        pool: connections to the warehouse.
        pipeline: the pipeline driven.
        lookups: its lookups that have a hot set.
        reading: what hot tuples are read again through; closed when the watch stops, or has not read for a while.
        writer: writes the hot sets' files; shut down when the watch stops.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        pipeline: str,
        lookups: Sequence[LookupWatch],
        reading: ReadingConnection,
        writer: ThreadPoolExecutor,
    ) -> None:
        super().__init__(name="relation-watch", daemon=True)
        self._session = Borrower(pool, patience=timedelta())
        self._reading = reading
        self._pipeline = pipeline
        self._lookups = lookups
        self._writer = writer
        self._steps = SeparateSteps(f"relation watch of {pipeline}")
        self._epoch = 0
        self._checked_at = 0.0
        self._ended = threading.Event()
        self._looked = threading.Event()
        shortest = min((watch.lookup.notice_changes for watch in lookups), default=timedelta(seconds=_LONGEST_INTERVAL))
        interval = shortest.total_seconds() / _LOOKS_WITHIN_NOTICE
        self.interval_seconds = min(max(interval, _SHORTEST_INTERVAL), _LONGEST_INTERVAL)
        self._told: list[tuple[object, ...]] = []
        self._told_at = 0.0
        self._looks = 0

    def begin(self, connection: extensions.connection) -> None:
        """Install triggers where that may be done, and fill the hot sets from their files; before `start`.

        Args:
            connection: to the warehouse, not in a transaction.
        """
        outcomes = watch_relations(connection, [watch.lookup for watch in self._lookups])
        self._checked_at = time.monotonic()
        for watch in self._lookups:
            watch.begin(connection, outcomes[watch.lookup.relation])

    def take_in(self) -> bool:
        """Have hot what has been read of R by now; before `start`. Whether all of some R is still being read.

        Raises:
            psycopg2.Error, WarehouseUnavailableError: the warehouse is away.
        """
        connection = self._session.connection()
        try:
            for number in range(len(self._lookups)):
                self._notice(number, connection)
        finally:
            self._session.rest()
        return any(watch.reads_whole for watch in self._lookups)

    def start_as(self, epoch: int) -> None:
        """Start the thread, for the driver of this epoch; what it finds at once is hot on return."""
        self._epoch = epoch
        self.start()
        self._looked.wait(_FIRST_LOOK_SECONDS)

    def run(self) -> None:
        """Watch."""
        while not self._ended.is_set():
            try:
                self._look(self._session.connection())
                self._session.rest()
                self._looked.set()
            except (psycopg2.Error, WarehouseUnavailableError) as error:
                self._session.drop()
                _log.warning("relation watch of %s: the warehouse does not answer: %s", self._pipeline, error)
            except Exception:
                self._session.drop()
                _log.exception("relation watch of %s: changes could not be noticed; trying again", self._pipeline)
            self._reading.close_idle(_IDLE_SECONDS)
            reading = any(watch.reads_whole for watch in self._lookups)
            self._ended.wait(_SHORTEST_INTERVAL if reading else self.interval_seconds)

    def stop(self) -> None:
        """End the thread, and write the hot sets down."""
        self._ended.set()
        for watch in self._lookups:
            watch.stop()
        if self.is_alive():
            self.join(_LONGEST_END_SECONDS)
        self._reading.close()
        for watch in self._lookups:
            watch.write_learned(at_end=True)
        self._writer.shutdown()

    def _look(self, connection: extensions.connection) -> None:
        """Look once at everything; what fails keeps nothing else from being looked at."""
        # The catalog is asked half as often as for changes: that takes longer, and is within the notice, too.
        if self._looks % 2 == 0:
            self._steps.take("checking triggers", connection, partial(self._check_triggers, connection))
        self._looks += 1
        for number, watch in enumerate(self._lookups):
            self._notice(number, connection)
            where = f"lookup {number} of {watch.lookup.relation}"
            self._steps.take(
                f"looking for a rebuilt cache of {where}", connection, partial(watch.take_over_rebuilt, connection)
            )
            self._steps.take(f"writing the cache of {where}", connection, watch.write_learned)
        self._steps.take("telling the caches' state", connection, partial(self._tell, connection))

    def _notice(self, number: int, connection: extensions.connection) -> None:
        watch = self._lookups[number]
        name = f"noticing changes for lookup {number} of {watch.lookup.relation}"
        self._steps.take(name, connection, partial(watch.notice, connection))

    def _check_triggers(self, connection: extensions.connection) -> None:
        lookups = [watch.lookup for watch in self._lookups]
        if time.monotonic() - self._checked_at >= TRIGGERS_CHECKED_SECONDS:
            self._checked_at = time.monotonic()
            outcomes = watch_relations(connection, lookups)
        else:
            outcomes = look_at_relations(connection, lookups)
        for number, watch in enumerate(self._lookups):
            self._steps.take(
                f"checking triggers for lookup {number} of {watch.lookup.relation}",
                connection,
                partial(watch.watch, connection, outcomes[watch.lookup.relation]),
            )

    def _tell(self, connection: extensions.connection) -> None:
        """Tell what is new at once. That nothing is, is known for as long as no change is noted."""
        news = [watch.news() for watch in self._lookups]
        if news == self._told and time.monotonic() - self._told_at < _LOOKS_WITHIN_NOTICE * self.interval_seconds:
            return
        with connection, connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit = off")
            write_cache_rows(cursor, self._pipeline, self._epoch, [watch.row() for watch in self._lookups])
        self._told, self._told_at = news, time.monotonic()


class SeparateSteps:
    """Takes each step by itself. A failure is logged when it begins or turns into another one, not every time.

    Args:
        purpose: what the steps are for, for the log.
    """

    def __init__(self, purpose: str) -> None:
        self._purpose = purpose
        self._failures: dict[str, str] = {}

    def take(self, name: str, connection: extensions.connection, step: Callable[[], None]) -> None:
        """Take a step; if it fails, the connection is ready for the next one.

        Args:
            name: tells the steps apart.
            connection: to the warehouse, which the step uses.
            step: what to do.

        Raises:
            psycopg2.Error, WarehouseUnavailableError: the warehouse is away, in which no step would succeed.
        """
        try:
            step()
        except WarehouseUnavailableError:
            raise
        except Exception as error:
            if connection.closed:
                raise
            # Further lines quote the query, which differs from time to time.
            failure = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            if self._failures.get(name) != failure:
                self._failures[name] = failure
                _log.exception("%s: %s failed; it is tried again, and the rest goes on", self._purpose, name)
            connection.rollback()
        else:
            if self._failures.pop(name, None) is not None:
                _log.info("%s: %s succeeds again", self._purpose, name)
