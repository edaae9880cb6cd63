"""The page's connection to the warehouse, which only reads, and reads that are done once for all browsers that ask."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Generic, TypeVar

import psycopg2
from psycopg2 import errors, extensions

from freshet_airflow.warehouse_connection import reader_url
from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.warehouse.connection import connect

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

_NO_PATIENCE = timedelta(0)  # the page asks again in two seconds
_STATEMENT_TIMEOUT = "10s"
_MOST_KEYS = 200
_LOST = (psycopg2.OperationalError, psycopg2.InterfaceError)


class SharedRead(Generic[Value]):
    """Answers from its last result while that is young; else reads again, once, in a thread.

    Failures are results, too: while the warehouse is away, it is asked once in `max_age_seconds`.

    Args:
        threads: where it is read. A read that has not begun when its last caller leaves is dropped.
        read: the blocking read; it may raise a WarehouseUnavailableError.
        max_age_seconds: how long a result counts as young.
        patience_seconds: how long a caller is kept waiting.
    """

    def __init__(
        self, threads: Executor, read: Callable[[], Value], max_age_seconds: float, patience_seconds: float
    ) -> None:
        self._threads = threads
        self._read = read
        self._max_age_seconds = max_age_seconds
        self._patience_seconds = patience_seconds
        self._reading: tuple[Future[Value], asyncio.Future[Value]] | None = None
        self._callers = 0
        self._done_at: float | None = None

    async def value(self) -> Value:
        """The result of the last read, or of a new one.

        Raises:
            WarehouseUnavailableError: the read failed, or takes too long.
        """
        if self._reading is None or self._is_old():
            self._done_at = None
            submitted = self._threads.submit(self._read)
            self._reading = submitted, asyncio.wrap_future(submitted)
            self._reading[1].add_done_callback(self._note_end)
        submitted, reading = self._reading
        self._callers += 1
        try:
            # Shielded: who loses patience, or goes away, leaves the read to the others.
            return await asyncio.wait_for(asyncio.shield(reading), self._patience_seconds)
        except TimeoutError:
            raise WarehouseUnavailableError(
                f"The warehouse has not answered for {self._patience_seconds:g} s. Check that its server runs and "
                "is not overloaded."
            ) from None
        finally:
            self._callers -= 1
            if not self._callers and submitted.cancel():
                self._reading = None

    def _is_old(self) -> bool:
        return self._done_at is not None and time.monotonic() - self._done_at > self._max_age_seconds

    def _note_end(self, reading: asyncio.Future[Value]) -> None:
        if not reading.cancelled():
            self._done_at = time.monotonic()
            reading.exception()  # looked at: no caller may be left to await it


class SharedReads(Generic[Key, Value]):
    """As many shared reads as there are keys that are asked for; those that were not for longest are forgotten.

    Args:
        threads: where they are read.
        read: the blocking read of a key.
        patience_seconds: how long a caller is kept waiting.
    """

    def __init__(self, threads: Executor, read: Callable[[Key], Value], patience_seconds: float) -> None:
        self._threads = threads
        self._read = read
        self._patience_seconds = patience_seconds
        self._reads: OrderedDict[Key, SharedRead[Value]] = OrderedDict()

    async def value(self, key: Key, max_age_seconds: float) -> Value:
        """The result of the key's last read, if it is no older, or of a new one. Raises like `SharedRead.value`."""
        if key not in self._reads:
            self._reads[key] = SharedRead(
                self._threads, lambda: self._read(key), max_age_seconds, self._patience_seconds
            )
        self._reads.move_to_end(key)
        if len(self._reads) > _MOST_KEYS:
            self._reads.popitem(last=False)
        return await self._reads[key].value()


class WarehouseReader:
    """One connection, opened when it is needed and again after it was lost. Threads take turns.

    Args:
        name: what pg_stat_activity shows as the session's application_name.

    Attributes:
        thread: one for its reads, which wait for each other, and for no one else's.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._turn = threading.Lock()
        self._connection: extensions.connection | None = None

    def read(self, read: Callable[[extensions.connection], Value]) -> Value:
        """What `read` returns.

        Args:
            read: reads in a transaction of its own; it is called a second time if the connection turns out lost.

        Raises:
            WarehouseUnavailableError: there is no answer, the tables are missing, or reading them is refused.
        """
        with self._turn:
            if self._connection is not None:
                try:
                    return self._attempt(read)
                except _LOST:
                    self._disconnect()  # the server was restarted, perhaps: it deserves a new try
            try:
                return self._attempt(read)
            except _LOST as error:
                self._disconnect()
                raise WarehouseUnavailableError(f"The warehouse broke off: {_first_line(error)}") from error

    def close(self) -> None:
        """Leave the warehouse."""
        with self._turn:
            self._disconnect()

    def _attempt(self, read: Callable[[extensions.connection], Value]) -> Value:
        if self._connection is None:
            self._connection = self._connect()
        try:
            return self._read_or_disconnect(read, self._connection)
        except errors.QueryCanceled as error:
            raise WarehouseUnavailableError(
                f"The warehouse took longer than {_STATEMENT_TIMEOUT} to answer: it is overloaded, or a session has "
                "locked its control tables."
            ) from error
        except (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName) as error:
            raise WarehouseUnavailableError(
                f"This warehouse lacks tables of this version of Freshet: {_first_line(error)}. "
                "Run `freshet migrate` first."
            ) from error
        except errors.InsufficientPrivilege as error:
            raise WarehouseUnavailableError(
                f"The warehouse refuses to show its figures: {_first_line(error)}. Give the connection's role the "
                "right to read the schema freshet."
            ) from error

    def _read_or_disconnect(
        self, read: Callable[[extensions.connection], Value], connection: extensions.connection
    ) -> Value:
        """What `read` returns. Whatever it raises, the next read begins anew, not in the middle."""
        try:
            return read(connection)
        except BaseException:
            self._disconnect()
            raise

    def _connect(self) -> extensions.connection:
        connection = connect(reader_url(), application_name=self._name, patience=_NO_PATIENCE)
        connection.set_session(readonly=True)
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, false)", [_STATEMENT_TIMEOUT])
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _first_line(error: psycopg2.Error) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
