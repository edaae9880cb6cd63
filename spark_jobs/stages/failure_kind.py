"""What keeps a batch from being loaded where neither its tuples nor Freshet are at fault, by the driver's error."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from functools import cache

import psycopg2
from psycopg2 import errorcodes, errors

from spark_jobs.errors import (
    LoadBlockedError,
    SchemaMismatchError,
    SourceAwayError,
    SourceRangeGoneError,
    StateDamagedError,
    StateInUseError,
    WarehouseUnavailableError,
)
from spark_jobs.loading.refusals import ErrorKind, kind_of_sqlstate
from spark_jobs.task_errors import kind_of


class FailureKind(Enum):
    """Kinds of failures that are nobody's fault here, by what the driver can still do."""

    AWAY = auto()  # the warehouse does not answer, so it can't show that the stream is blocked
    BLOCKED = auto()  # it answers, and can't take the batch for now


_BY_KIND = {
    ErrorKind.CONNECTION_LOST: FailureKind.AWAY,
    ErrorKind.PASSING: FailureKind.AWAY,
    ErrorKind.SCHEMA_CHANGED: FailureKind.BLOCKED,
    ErrorKind.SERVER_UNABLE: FailureKind.BLOCKED,
}

_BLOCKING = (
    LoadBlockedError,
    SchemaMismatchError,
    SourceAwayError,
    SourceRangeGoneError,
    StateDamagedError,
    StateInUseError,
)


def failure_kind(error: BaseException) -> FailureKind | None:
    """What kept a batch from being loaded; None where it is the batch, or Freshet.

    Args:
        error: raised in the driver, or by Spark for an error of one of its tasks.
    """
    kind = kind_of(error)
    if issubclass(kind, _BLOCKING):
        return FailureKind.BLOCKED
    if issubclass(kind, OSError) and not issubclass(kind, ConnectionError):
        return FailureKind.BLOCKED  # a file that may not be read, a disk that fails
    if issubclass(kind, WarehouseUnavailableError):
        return FailureKind.AWAY
    sqlstate = error.pgcode if isinstance(error, psycopg2.Error) else _sqlstates().get(kind)
    if sqlstate is not None:
        return _BY_KIND.get(kind_of_sqlstate(sqlstate))
    # What psycopg2 makes of a server that went away, in the middle of a query perhaps.
    went_away = kind is psycopg2.DatabaseError or issubclass(kind, psycopg2.OperationalError | psycopg2.InterfaceError)
    return FailureKind.AWAY if went_away else None


@cache
def _sqlstates() -> dict[type, str]:
    """SQLSTATE of each of psycopg2's classes: of an error in a task only the class's name is left."""

    def known() -> Iterator[tuple[type, str]]:
        for code in vars(errorcodes).values():
            if isinstance(code, str) and len(code) == 5:
                try:
                    yield errors.lookup(code), code
                except KeyError:
                    continue

    return dict(known())
