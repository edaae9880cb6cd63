"""The page's connection to the warehouse: it reads only, and tells quickly when there is nothing to read from."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import psycopg2
from psycopg2 import errors, extensions

from freshet_airflow.warehouse_connection import reader_url
from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.warehouse.connection import connect

Value = TypeVar("Value")

_NO_PATIENCE = timedelta(0)  # somebody looks at the page and asks again in two seconds
_STATEMENT_TIMEOUT = "10s"
_LOST = (psycopg2.OperationalError, psycopg2.InterfaceError)


class WarehouseReader:
    """One connection, opened when it is needed and again after it was lost. Threads take turns.

    Args:
        name: what pg_stat_activity shows as the session's application_name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._turn = threading.Lock()
        self._connection: extensions.connection | None = None

    def read(self, read: Callable[[extensions.connection], Value]) -> Value:
        """What `read` returns.

        Args:
            read: reads in a transaction of its own; it is called a second time if the connection turns out lost.

        Raises:
            WarehouseUnavailableError: nobody answers, the tables are not there, or reading them is refused.
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
                f"The warehouse took longer than {_STATEMENT_TIMEOUT} to answer: it is overloaded, or somebody has "
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
        """What `read` returns. Whatever it raises, nobody shall go on in the middle: the next one begins anew."""
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
