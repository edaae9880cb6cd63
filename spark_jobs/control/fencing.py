"""Fencing: a newer driver's epoch, and locks against loaders that were left over, keep older drivers from writing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

import psycopg2.errors
from psycopg2 import extensions

from spark_jobs.errors import WarehouseUnavailableError, WriterFencedError

PATIENCE = timedelta(seconds=10)
_ATTEMPTS = 4
_LONGEST_NAME = 63  # PostgreSQL cuts longer application names off


def session_name(work: Literal["load", "reprocess"], pipeline: str) -> str:
    """application_name of a pipeline's sessions that load or reprocess, as pg_stat_activity shows it: never cut."""
    name = f"freshet {work} {pipeline}"
    if name.isascii() and name.isprintable() and len(name) <= _LONGEST_NAME:
        return name
    return f"freshet {work} {hashlib.sha256(pipeline.encode()).hexdigest()[:32]}"


def read_locked(query: str) -> str:
    """The query, to be run in one round trip, for rows whose keys it locks against `lock_against_loaders`.

    It is read again once they are locked. FOR KEY SHARE gives the row as it was when the statement began, if no key has
    changed since: an epoch that a newer driver has left behind already.

    Args:
        query: a SELECT of the rows' columns, in READ COMMITTED.
    """
    return f"{query} FOR KEY SHARE; {query}"


def lock_against_loaders(
    cursor: extensions.cursor, pipeline: str, query: str, arguments: Sequence[Any], *, patience: timedelta = PATIENCE
) -> list[tuple[Any, ...]]:
    """Run a `SELECT ... FOR UPDATE` that open loading transactions hold up, and end those that don't let go.

    A loading transaction lasts a second or so. One that is still open after `patience` belongs to a process
    that was paused or orphaned: left alone it would keep every later driver from starting.

    Args:
        cursor: in an open transaction.
        pipeline: whose loaders may be in the way.
        query: locks the rows and returns them.
        arguments: parameters of the query.
        patience: how long loaders may take to commit.

    Raises:
        WarehouseUnavailableError: the rows stayed locked although those loaders were ended.
    """
    for _ in range(_ATTEMPTS):
        cursor.execute(
            "SAVEPOINT before_lock; SELECT set_config('lock_timeout', %s, true)",
            [f"{int(patience.total_seconds() * 1000)}ms"],
        )
        try:
            cursor.execute(query, arguments)
            rows = cursor.fetchall()
        except psycopg2.errors.LockNotAvailable:
            cursor.execute("ROLLBACK TO before_lock")
            _end_open_transactions(cursor, pipeline)
            continue
        cursor.execute("SET LOCAL lock_timeout TO DEFAULT; RELEASE before_lock")
        return rows
    raise WarehouseUnavailableError(
        f"Rows of the control schema stay locked by another session, for pipeline {pipeline!r}. "
        f"Find it with: SELECT * FROM pg_locks JOIN pg_stat_activity USING (pid) "
        f"WHERE relation IN ('freshet.pipeline'::regclass, 'freshet.batch'::regclass)"
    )


def _end_open_transactions(cursor: extensions.cursor, pipeline: str) -> None:
    cursor.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = %s AND xact_start IS NOT NULL AND pid <> pg_backend_pid()",
        [session_name("load", pipeline)],
    )


def check_epoch(found: int, pipeline: str, epoch: int) -> None:
    """Compare the pipeline's epoch with ours.

    Raises:
        WriterFencedError: they differ; the message says why.
    """
    if found < epoch:
        raise WriterFencedError(
            f"The warehouse was restored to an earlier time: there pipeline {pipeline} has epoch {found}, this driver "
            f"has {epoch}. Nothing more is written here; the next driver goes on from what the warehouse holds."
        )
    if found > epoch:
        raise WriterFencedError(
            f"A newer driver of pipeline {pipeline} has taken over: it has epoch {found}, this one {epoch}. "
            f"Nothing more is written here; the newer one loads what is left."
        )


def require_epoch(cursor: extensions.cursor, pipeline: str, epoch: int) -> None:
    """Keep newer drivers waiting until the end of the transaction.

    Raises:
        WriterFencedError: there is one already.
    """
    query = "SELECT epoch FROM freshet.pipeline WHERE name = %(pipeline)s"
    cursor.execute(read_locked(query), {"pipeline": pipeline})
    row = cursor.fetchone()
    if row is None:
        raise WriterFencedError(f"Pipeline {pipeline} is not registered in this warehouse any more.")
    check_epoch(row[0], pipeline, epoch)
