"""A connection to read R through: made when it is first needed, made again when the server was restarted."""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import psycopg2
from psycopg2 import extensions, sql

from spark_jobs.connection_liveness import LIVENESS
from spark_jobs.errors import WarehouseUnavailableError

Result = TypeVar("Result")

PATIENCE_SECONDS = 60.0
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
_OPERATOR_INTERVENTION = "57P"  # SQLSTATEs of a server that shuts down, starts up, or ends a session

# A read of R is always meant to go by an index. Without these, missing statistics or a large array of keys
# make the planner read all of R, or compile the query, or start workers on the cores that the joins run on.
_PLANNING = (
    "SET jit = off; SET max_parallel_workers_per_gather = 0; SET enable_seqscan = off; SET random_page_cost = 1.1"
)


class ReadingConnection:
    """A read-only connection that comes back after the server was away.

    Args:
        url: libpq URL.
        patience: seconds to go on trying while the server can't be reached.
    """

    def __init__(self, url: str, patience: float = PATIENCE_SECONDS) -> None:
        self.url = url
        self._patience = patience
        self._connection: extensions.connection | None = None
        self._used_at = 0.0

    def run(self, read: Callable[[extensions.connection], Result]) -> Result:
        """The result of `read`, which is called again if the connection was lost under it.

        Raises:
            WarehouseUnavailableError: the server did not come back within the patience.
        """
        deadline: float | None = None
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return read(self._connected())
            except psycopg2.Error as error:
                if not self._is_lost(error):
                    raise
                self._connection = None
                deadline = deadline or time.monotonic() + self._patience
                if time.monotonic() + pause > deadline:
                    raise WarehouseUnavailableError(
                        f"The warehouse could not be reached for {self._patience:.0f} s: {str(error).strip()}. "
                        "Start PostgreSQL, or correct FRESHET_WAREHOUSE_URL; the stream then continues where it was."
                    ) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def copy(self, query: sql.Composable) -> memoryview:
        """The result of a query in binary COPY format; read again from its start after a lost connection."""
        return self.run(lambda connection: copy_out(connection, query))

    def close_idle(self, seconds: float) -> None:
        """Give up the connection if nothing was read for so long."""
        if time.monotonic() - self._used_at > seconds:
            self.close()

    def close(self) -> None:
        """Give up the connection; a later read makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _is_lost(self, error: psycopg2.Error) -> bool:
        """Whether the server is away, rather than there and refusing the query."""
        if self._connection is None or self._connection.closed:
            return True
        # After a crash of the server psycopg2 raises a bare DatabaseError, and has the connection for open still.
        return type(error) is psycopg2.DatabaseError or (error.pgcode or "").startswith(_OPERATOR_INTERVENTION)

    def _connected(self) -> extensions.connection:
        self._used_at = time.monotonic()
        if self._connection is None:
            connection = psycopg2.connect(self.url, **LIVENESS)
            connection.set_session(readonly=True, autocommit=True)
            connection.set_client_encoding("UTF8")
            with connection.cursor() as cursor:
                cursor.execute(_PLANNING)
            self._connection = connection
        return self._connection


class _OfThisThread(threading.local):
    def __init__(self) -> None:
        self.process = os.getpid()
        self.connections: dict[str, ReadingConnection] = {}


_of_this_thread = _OfThisThread()


def reading_connection(url: str) -> ReadingConnection:
    """This thread's connection to that warehouse, as no two reads may share one; a forked process makes its own."""
    if _of_this_thread.process != os.getpid():
        _of_this_thread.process = os.getpid()
        _of_this_thread.connections = {}
    return _of_this_thread.connections.setdefault(url, ReadingConnection(url))


def copy_out(connection: extensions.connection, query: sql.Composable) -> memoryview:
    """The result of a query in PostgreSQL's binary COPY format, as text in UTF-8."""
    content = io.BytesIO()
    with connection.cursor() as cursor:
        cursor.copy_expert(sql.SQL("COPY ({}) TO STDOUT (FORMAT binary, ENCODING 'UTF8')").format(query), content)
    return content.getbuffer()
