"""The warehouse session of a worker process: kept from task to task, and made anew when it is lost."""

from __future__ import annotations

import os
import threading
from datetime import timedelta

from psycopg2 import extensions

from spark_jobs.loading.held_earlier import HeldEarlier
from spark_jobs.warehouse.connection import connect


class WorkerSession:
    """One connection for one pipeline and epoch, and what is remembered of the warehouse between its batches.

    Args:
        url: libpq URL of the warehouse.
        pipeline: the pipeline's name.
        session_name: application_name of the connection, as pg_stat_activity shows it.
        patience: how long to try to connect.
    """

    def __init__(self, url: str, pipeline: str, session_name: str, patience: timedelta) -> None:
        self._url = url
        self._session_name = session_name
        self._patience = patience
        self._connection: extensions.connection | None = None
        self._process_id: int | None = None
        self.held_earlier = HeldEarlier(pipeline)
        self.commit_seconds = 0.0  # how long the last commit took

    def connection(self) -> extensions.connection:
        """The connection; a new one if there is none, or it was lost.

        Raises:
            WarehouseUnavailableError: the warehouse did not answer for the time of our patience.
        """
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._url, application_name=self._session_name, patience=self._patience)
            if self._process_id is not None:
                self._end_predecessor(self._connection, self._process_id)
            self._process_id = self._connection.info.backend_pid
        return self._connection

    @property
    def is_lost(self) -> bool:
        """Whether there was a connection, and it is gone."""
        return self._connection is not None and bool(self._connection.closed)

    def _end_predecessor(self, connection: extensions.connection, process_id: int) -> None:
        """End the server's side of the lost connection: not having noticed, it might keep its locks for hours."""
        with connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid = %s AND datname = current_database() AND usename = current_user AND application_name = %s",
                [process_id, self._session_name],
            )

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


# A connection must not be shared with a forked process, and a thread needs one of its own.
_sessions = threading.local()


def session_of(url: str, pipeline: str, epoch: int, session_name: str, patience: timedelta) -> WorkerSession:
    """This thread's session of that name, for one epoch. Earlier epochs' sessions are closed.

    Args:
        url: libpq URL of the warehouse.
        pipeline: the pipeline's name.
        epoch: the epoch of its driver, or the number of the run.
        session_name: application_name of the connection; it names the pipeline.
        patience: how long to try to connect.
    """
    owner = (os.getpid(), url, session_name)
    sessions: dict[tuple[int, str, str], tuple[int, WorkerSession]] = _sessions.__dict__.setdefault("by_owner", {})
    known_epoch, session = sessions.get(owner, (None, None))
    if session is None or known_epoch != epoch:
        if session is not None:
            session.close()
        session = WorkerSession(url, pipeline, session_name, patience)
        sessions[owner] = (epoch, session)
    return session
