"""Connections to the warehouse that the threads of a process take in turn, each for as long as it uses one."""

from __future__ import annotations

import select
import threading
from datetime import timedelta

import psycopg2
from psycopg2 import extensions

from spark_jobs.warehouse.connection import PATIENCE, connect

# Idle ones: more are closed when they come back. A server keeps some ten megabytes for each.
_MOST_KEPT = 4


class ConnectionPool:
    """As many connections as are in use at once, however many threads there are. Who needs one never waits for others.

    Args:
        url: libpq URL of the warehouse.
        name: who connects, as pg_stat_activity shows it.
    """

    def __init__(self, url: str, name: str) -> None:
        self.url = url
        self._name = name
        self._lock = threading.Lock()
        self._kept: list[extensions.connection] = []

    def take(self, patience: timedelta = PATIENCE) -> extensions.connection:
        """A connection that nobody else uses, not in a transaction, until it is given back or closed.

        Args:
            patience: how long to try to connect, where a new one is needed.

        Raises:
            WarehouseUnavailableError: the warehouse did not answer in time, or refused us.
        """
        with self._lock:
            while self._kept:
                connection = self._kept.pop()
                if not connection.closed and _is_silent(connection):
                    return connection
                connection.close()
        return connect(self.url, application_name=self._name, patience=patience)

    def give_back(self, connection: extensions.connection) -> None:
        """Let others use a connection. A transaction that is left open is rolled back."""
        try:
            connection.rollback()
        except psycopg2.Error:  # it is lost
            connection.close()
            return
        with self._lock:
            if len(self._kept) < _MOST_KEPT:
                self._kept.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close the connections that nobody uses: where one was lost, they may be, too."""
        with self._lock:
            kept, self._kept = self._kept, []
        for connection in kept:
            connection.close()


def _is_silent(connection: extensions.connection) -> bool:
    """Whether the server has said nothing since: where it ends a session it says so, or hangs up."""
    said = select.poll()
    said.register(connection.fileno(), select.POLLIN)
    return not said.poll(0)


class Borrower:
    """One thread's use of a pool: it has a connection from when it needs one until it rests.

    Args:
        pool: where connections come from.
        patience: how long to try to connect.
    """

    def __init__(self, pool: ConnectionPool, patience: timedelta = PATIENCE) -> None:
        self._pool = pool
        self._patience = patience
        self._connection: extensions.connection | None = None

    def connection(self) -> extensions.connection:
        """The connection; another one where the former was given back or lost.

        Raises:
            WarehouseUnavailableError: the warehouse did not answer in time, or refused us.
        """
        if self._connection is None or self._connection.closed:
            self._connection = self._pool.take(self._patience)
        return self._connection

    def rest(self) -> None:
        """Let others have the connection: nothing is to be done for now."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.give_back(connection)

    def drop(self) -> None:
        """Close the connection: it may be lost without psycopg2 knowing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            self._pool.close()
