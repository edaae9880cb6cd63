"""The loader: stores what a task has joined, exactly once, whatever the warehouse does meanwhile."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

import psycopg2
from psycopg2 import extensions

from spark_jobs.definition.stream_tuple import EventColumns, LoadCounts
from spark_jobs.errors import LoadBlockedError, SchemaMismatchError, WarehouseUnavailableError
from spark_jobs.loading.chunk import cut
from spark_jobs.loading.fact_storage import StorageMode
from spark_jobs.loading.held_earlier import HeldEarlier
from spark_jobs.loading.outcome import Outcome
from spark_jobs.loading.refusals import ErrorKind, kind_of_error, words
from spark_jobs.lookup.relation.catalog.declared_types import check_types
from spark_jobs.lookup.relation.relation_spec import RelationSpec
from spark_jobs.sketches.id_sketch import IdSketch
from spark_jobs.warehouse.connection import PATIENCE, address, connect
from spark_jobs.warehouse.fact_table import FactTable

# A connection must not be shared with a forked process, and a thread needs one of its own.
_sessions = threading.local()
_log = logging.getLogger(__name__)
_MOST_CONFLICTS = 4
_CHUNKS_OF_CAUTION = 20
_MOST_ATTEMPTS = 20


class _ThreadConnection:
    """One connection of a thread, which loads for one pipeline after the other. The server is told for which.

    By that name a pipeline's loaders are found that keep its new driver out (`lock_against_loaders`).
    """

    def __init__(self) -> None:
        self._connection: extensions.connection | None = None
        self._name = ""
        self._process_id: int | None = None

    def connected(self, url: str, name: str, patience: timedelta) -> extensions.connection:
        """The connection under this name; a new one if there is none, or it was lost."""
        if self._connection is None or self._connection.closed:
            self._connection = connect(url, application_name=name, patience=patience)
            if self._process_id is not None:
                _end_predecessor(self._connection, self._process_id, self._name)
            self._process_id, self._name = self._connection.info.backend_pid, name
        elif self._name != name:
            with self._connection, self._connection.cursor() as cursor:
                cursor.execute("SELECT set_config('application_name', %s, false)", [name])
            self._name = name
        return self._connection

    @property
    def is_lost(self) -> bool:
        """Whether there was one, and it is gone."""
        return self._connection is not None and bool(self._connection.closed)


class WorkerSession:
    """What a thread loads through for one pipeline and epoch, and what it remembers of the warehouse between batches.

    Args:
        url: libpq URL of the warehouse.
        pipeline: the pipeline's name.
        session_name: application_name of the connection, as pg_stat_activity shows it.
        patience: how long to try to connect.
        connection: the thread's to that warehouse.
    """

    def __init__(
        self, url: str, pipeline: str, session_name: str, patience: timedelta, connection: _ThreadConnection
    ) -> None:
        self._url = url
        self._session_name = session_name
        self._patience = patience
        self._connection = connection
        self.held_earlier = HeldEarlier(pipeline)
        self.commit_seconds = 0.0  # how long the last commit took
        self.first_mode = StorageMode.OPTIMISTIC  # how to try to store the next chunk, as those before it were
        self._left = 0  # chunks until it is tried with less care

    def learn(self, stored: StorageMode, *, conflicts: bool, duplicates: bool) -> None:
        """Remember how a chunk was stored. Duplicates come in runs, from a source that repeats some, or a file twice.

        Args:
            stored: the mode that stored it.
            conflicts: whether another one met duplicates that it had not looked for.
            duplicates: whether there were any.
        """
        if conflicts:
            self.first_mode, self._left = min(stored, StorageMode.CAREFUL), _CHUNKS_OF_CAUTION
        elif duplicates and self.first_mode <= StorageMode.WATCHFUL:
            self.first_mode, self._left = StorageMode.WATCHFUL, _CHUNKS_OF_CAUTION
        elif self.first_mode > StorageMode.OPTIMISTIC:
            self._left -= 1
            if not self._left:
                self.first_mode, self._left = StorageMode(self.first_mode - 1), _CHUNKS_OF_CAUTION

    def connection(self) -> extensions.connection:
        """The connection; a new one if there is none, or it was lost.

        Raises:
            WarehouseUnavailableError: the warehouse did not answer for the time of our patience.
        """
        return self._connection.connected(self._url, self._session_name, self._patience)

    @property
    def is_lost(self) -> bool:
        """Whether there was a connection, and it is gone."""
        return self._connection.is_lost


def _end_predecessor(connection: extensions.connection, process_id: int, name: str) -> None:
    """End the server's side of a lost connection: it may not have noticed, and would keep its locks for hours."""
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid = %s AND datname = current_database() AND usename = current_user AND application_name = %s",
            [process_id, name],
        )


def session_of(url: str, pipeline: str, epoch: int, session_name: str, patience: timedelta) -> WorkerSession:
    """This thread's session of that name, for one epoch. All its sessions share one connection.

    Args:
        url: libpq URL of the warehouse.
        pipeline: the pipeline's name.
        epoch: the epoch of its driver, or the number of the run.
        session_name: application_name of the connection; it names the pipeline.
        patience: how long to try to connect.
    """
    process_id = os.getpid()
    connections: dict[tuple[int, str], _ThreadConnection] = _sessions.__dict__.setdefault("connections", {})
    sessions: dict[tuple[int, str, str], tuple[int, WorkerSession]] = _sessions.__dict__.setdefault("by_owner", {})
    owner = (process_id, url, session_name)
    known_epoch, session = sessions.get(owner, (None, None))
    if session is None or known_epoch != epoch:
        connection = connections.setdefault((process_id, url), _ThreadConnection())
        session = WorkerSession(url, pipeline, session_name, patience, connection)
        sessions[owner] = (epoch, session)
    return session


class LoadingTransaction(Protocol):
    """A part of an outcome, ready to be stored in one transaction."""

    @property
    def ids(self) -> IdSketch:
        """The event ids of all its tuples; none, where the destination does not compare them."""

    def store(self, session: WorkerSession, mode: StorageMode) -> LoadCounts:
        """Store it, all or nothing.

        Args:
            session: the worker's.
            mode: how to store facts.

        Raises:
            WriterFencedError: the destination takes no more. Nothing was stored.
            psycopg2.Error: PostgreSQL raised an error; nothing was stored, unless the connection was lost.
        """

    def recorded(self, session: WorkerSession) -> LoadCounts | None:
        """What it stored, if it was committed although the connection was lost; None if it has to be stored again."""


class Destination(Protocol):
    """What a `Loader` loads into; pickled into the tasks."""

    @property
    def event(self) -> EventColumns:
        """The pipeline's event columns."""

    @property
    def fact(self) -> FactTable:
        """The pipeline's fact table."""

    @property
    def careful(self) -> bool:
        """Whether some of the tuples may be stored already."""

    @property
    def compares_ids(self) -> bool:
        """Whether the event ids that are read are compared with those that are loaded."""

    def session(self, url: str, patience: timedelta) -> WorkerSession:
        """This thread's session for loads into here.

        Args:
            url: libpq URL of the warehouse.
            patience: how long to wait for a warehouse that does not answer.
        """

    def transaction(self, part: Outcome) -> LoadingTransaction:
        """What stores a part of an outcome, with all prepared that can be before it begins."""

    def __str__(self) -> str:
        """The destination in the words of a message, such as `batch 17 of pipeline orders`."""


class Loader:
    """Loads into one destination of a pipeline: an open batch, or a reprocessing run.

    At first it expects that nothing is stored already, and copies facts straight into their table. If that fails, it
    rolls back and loads the chunk with more care. The worker's connection
    outlives the loader.

    Args:
        url: libpq URL of the warehouse.
        destination: where to.
        retried: whether this is a retry of the task: some of its tuples may be stored already.
        read: the relations that facts have values of.
        patience: how long to wait for a warehouse that does not answer.

    Attributes:
        settled: the event ids of all tuples that it has stored, or found to be stored already.
    """

    def __init__(
        self,
        url: str,
        destination: Destination,
        *,
        retried: bool = False,
        read: Sequence[RelationSpec] = (),
        patience: timedelta = PATIENCE,
    ) -> None:
        self._url = url
        self._destination = destination
        self._is_careful = retried or destination.careful
        self._session = destination.session(url, patience)
        self._read = read
        self.settled = IdSketch()

    def load(self, outcome: Outcome) -> LoadCounts:
        """Store an outcome, chunk by chunk, each in one transaction.

        Raises:
            WriterFencedError: a newer driver has taken over, or the destination is closed.
            WarehouseUnavailableError: the warehouse went away and did not come back in time.
            SchemaMismatchError: the fact table, or a relation that was read, is no longer what it was.
            LoadBlockedError: it refuses most of a chunk for one reason, or the server can't store anything for now.
        """
        counts = LoadCounts()
        for part in cut(outcome):
            transaction = self._destination.transaction(part)
            counts += self.store(transaction)
            self.settled += transaction.ids
        return counts

    def store(self, transaction: LoadingTransaction) -> LoadCounts:
        """Store what one transaction of the destination takes; errors as of `load`."""
        mode = StorageMode.CAREFUL if self._is_careful else self._session.first_mode
        conflicts, uncertain = 0, False
        for _ in range(_MOST_ATTEMPTS):
            try:
                counts = transaction.recorded(self._session) if uncertain else None
                if counts is None:
                    self._check_types()
                    counts = transaction.store(self._session, mode)
            except psycopg2.Error as error:
                found = self._reaction(error, mode)
                conflicts += found is ErrorKind.CONFLICT
                uncertain = uncertain or found is ErrorKind.CONNECTION_LOST
                mode = _next_mode(mode, found, conflicts)
                _log.info("%s: %s; next attempt %s: %s", self._destination, found.name, mode.name, error)
            else:
                self._session.learn(mode, conflicts=conflicts > 0, duplicates=counts.duplicates > 0)
                return counts
        raise WarehouseUnavailableError(
            f"The warehouse at {address(self._url)} broke off {_MOST_ATTEMPTS} attempts to load a chunk of "
            f"{self._destination}. Look into the server's log for the reason."
        )

    def _check_types(self) -> None:
        """Have nothing stored that was read of a relation by other types than it has; one round trip."""
        if self._read:
            connection = self._session.connection()
            with connection:
                check_types(connection, self._read)

    def _reaction(self, error: psycopg2.Error, mode: StorageMode) -> ErrorKind:
        """What an error means; raises those that a retry can't fix."""
        found = kind_of_error(error, connection_lost=self._session.is_lost)
        if found is ErrorKind.SCHEMA_CHANGED:
            fact = self._destination.fact
            raise SchemaMismatchError(
                f"{fact.schema}.{fact.table}, or Freshet's own tables, have changed since the stream started: "
                f"{words(error)}. Make them fit the pipeline again; a stream goes on by itself then."
            ) from None  # the driver tells the first error of a chain
        if found is ErrorKind.SERVER_UNABLE:
            raise LoadBlockedError(
                f"The warehouse at {address(self._url)} answers, but can't store for now: {words(error)}. "
                f"The load goes on by itself when that is fixed."
            ) from None  # the driver tells the first error of a chain
        if found is ErrorKind.TUPLE_REFUSED and mode is StorageMode.TUPLE_BY_TUPLE:
            raise error
        return found


def _next_mode(mode: StorageMode, found: ErrorKind, conflicts: int) -> StorageMode:
    if found is ErrorKind.TUPLE_REFUSED or conflicts >= _MOST_CONFLICTS:
        return StorageMode.TUPLE_BY_TUPLE
    return StorageMode.WATCHFUL if mode is StorageMode.OPTIMISTIC else max(mode, StorageMode.CAREFUL)
