"""Where tasks bring what they have settled: the open batch of a stream, or a run that reprocesses held tuples."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

from spark_jobs.definition.stream_tuple import EventColumns
from spark_jobs.loading.fact_storage import Way
from spark_jobs.loading.loading_transaction import LoadCounts
from spark_jobs.loading.outcome import Outcome
from spark_jobs.loading.worker_session import WorkerSession
from spark_jobs.warehouse.fact_table import FactTable


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
