"""The loader: stores what a task has joined, exactly once, whatever the warehouse does meanwhile."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Protocol

import psycopg2

from spark_jobs.definition.stream_tuple import EventColumns, LoadCounts
from spark_jobs.errors import LoadBlockedError, SchemaMismatchError, WarehouseUnavailableError
from spark_jobs.loading.chunk import cut
from spark_jobs.loading.fact_storage import Way
from spark_jobs.loading.outcome import Outcome
from spark_jobs.loading.refusals import Meaning, meaning, words
from spark_jobs.loading.worker_session import WorkerSession
from spark_jobs.warehouse.connection import PATIENCE, address
from spark_jobs.warehouse.fact_table import FactTable

_log = logging.getLogger(__name__)
_MOST_CONFLICTS = 3
_MOST_TRIES = 20


class LoadingTransaction(Protocol):
    """A part of an outcome, ready to be stored in one transaction."""

    def store(self, session: WorkerSession, way: Way) -> LoadCounts:
        """Store it, all or nothing.

        Args:
            session: the worker's.
            way: how to store facts.

        Raises:
            WriterFencedError: the destination takes no more. Nothing was stored.
            psycopg2.Error: PostgreSQL raised an error; nothing was stored, unless the connection was lost.
        """

    def recorded(self, session: WorkerSession) -> LoadCounts | None:
        """What it stored, where its end was not heard of; None where it is to be stored again."""


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

    It expects at first that nothing it loads is stored already, and copies facts straight into their table. Where
    that fails it rolls back and loads the chunk with more care (DESIGN section 5). The worker's connection
    outlives the loader.

    Args:
        url: libpq URL of the warehouse.
        destination: where to.
        retried: whether the task is tried again: some of its tuples may be stored already.
        patience: how long to wait for a warehouse that does not answer.
    """

    def __init__(
        self, url: str, destination: Destination, *, retried: bool = False, patience: timedelta = PATIENCE
    ) -> None:
        self._url = url
        self._destination = destination
        self._first_way = Way.CAREFUL if retried or destination.careful else Way.OPTIMISTIC
        self._way = self._first_way
        self._session = destination.session(url, patience)

    def load(self, outcome: Outcome) -> LoadCounts:
        """Store an outcome, chunk by chunk, each in one transaction.

        Raises:
            WriterFencedError: a newer driver has taken over, or the destination is closed.
            WarehouseUnavailableError: the warehouse went away and did not come back in time.
            SchemaMismatchError: the fact table is no longer what it was.
            LoadBlockedError: it refuses most of a chunk for one reason, or the server can't store anything for now.
        """
        counts = LoadCounts()
        for part in cut(outcome):
            counts += self._load(self._destination.transaction(part))
        return counts

    def _load(self, transaction: LoadingTransaction) -> LoadCounts:
        way, conflicts, uncertain = self._way, 0, False
        for _ in range(_MOST_TRIES):
            try:
                counts = transaction.recorded(self._session) if uncertain else None
                if counts is None:
                    counts = transaction.store(self._session, way)
            except psycopg2.Error as error:
                found = self._reaction(error, way)
                conflicts += found is Meaning.CONFLICT
                uncertain = uncertain or found is Meaning.CONNECTION_LOST
                way = _next_way(way, found, conflicts)
                _log.info("%s: %s; next try %s: %s", self._destination, found.name, way.name, error)
            else:
                self._remember(way, counts)
                return counts
        raise WarehouseUnavailableError(
            f"The warehouse at {address(self._url)} broke off {_MOST_TRIES} tries to load a chunk of "
            f"{self._destination}. Look into the server's log for the reason."
        )

    def _reaction(self, error: psycopg2.Error, way: Way) -> Meaning:
        """What to make of an error; raises those that another try would not mend."""
        found = meaning(error, connection_lost=self._session.is_lost)
        if found is Meaning.SCHEMA_CHANGED:
            fact = self._destination.fact
            raise SchemaMismatchError(
                f"{fact.schema}.{fact.table}, or Freshet's own tables, have changed since the stream started: "
                f"{words(error)}. Make them fit the pipeline again; a stream goes on by itself then."
            ) from None  # the driver tells the first error of a chain
        if found is Meaning.SERVER_UNABLE:
            raise LoadBlockedError(
                f"The warehouse at {address(self._url)} answers, but can't store for now: {words(error)}. "
                f"The load goes on by itself when that is fixed."
            ) from None  # the driver tells the first error of a chain
        if found is Meaning.TUPLE_REFUSED and way is Way.TUPLE_BY_TUPLE:
            raise error
        return found

    def _remember(self, way: Way, counts: LoadCounts) -> None:
        """Duplicates come in runs, say when a file was delivered twice: go on with care until they end."""
        found_some = way > Way.OPTIMISTIC and counts.duplicates > 0
        self._way = Way.CAREFUL if found_some else self._first_way


def _next_way(way: Way, found: Meaning, conflicts: int) -> Way:
    if found is Meaning.TUPLE_REFUSED or conflicts >= _MOST_CONFLICTS:
        return Way.TUPLE_BY_TUPLE
    return max(way, Way.CAREFUL)
