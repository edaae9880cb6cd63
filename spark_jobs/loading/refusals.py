"""What PostgreSQL's errors mean for a load, what it refuses, and whether its tuples are to blame, or the table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple

import psycopg2
import psycopg2.errors

from spark_jobs.errors import LoadBlockedError
from spark_jobs.warehouse.fact_table import FactTable

_LOST = ("08", "57P01", "57P02", "57P03", "57P05")
_PASSING = ("40", "55P03")
# Undefined column, table or schema; no right to use them; values of another type's size, which PostgreSQL reports as a
# broken protocol or as invalid binary data.
_SCHEMA = ("42703", "42P01", "3F000", "42501", "42804", "22P03", "08P01")
# Resources, read-only transactions, an operator's intervention, errors of the system, damaged files, configuration.
_SERVER = ("53", "25", "57", "58", "XX001", "XX002", "F0")

NOT_OF_TUPLES = (*_LOST, *_PASSING, *_SCHEMA, *_SERVER)
"""Beginnings of the SQLSTATEs that no tuple is to blame for; triggers may raise any other for one."""

_UNIQUE_VIOLATION = "23505"
# Fewer may be refused for any reason: a handful of bad tuples in a small batch must not stop a stream.
_LEAST = 20
_LONGEST_WORDS = 500
_VALUES = re.compile(r"""'[^']*'|"[^"]*"|\d+""")


class ErrorKind(Enum):
    """Kinds of errors, by what is to be done about them."""

    CONNECTION_LOST = auto()  # connect again; whether a commit under way took effect is unknown
    CONFLICT = auto()  # something to be stored is there already
    PASSING = auto()  # deadlock and the like: the same again may succeed
    TUPLE_REFUSED = auto()  # at least one tuple is at fault
    SCHEMA_CHANGED = auto()  # the table is no longer what it was
    SERVER_UNABLE = auto()  # the server can't do it for now: disk full, read-only, out of memory


class TuplesSuppressedError(psycopg2.DataError):
    """PostgreSQL took fewer tuples than were sent, without an error: a trigger dropped some."""


def kind_of_error(error: psycopg2.Error, *, connection_lost: bool) -> ErrorKind:
    """What an error means, given whether the connection that raised it is gone."""
    if connection_lost:
        return ErrorKind.CONNECTION_LOST
    if isinstance(error, TuplesSuppressedError):
        return ErrorKind.TUPLE_REFUSED
    if error.pgcode is not None:
        return kind_of_sqlstate(error.pgcode)
    # A server that goes while rows are copied to it leaves a connection that does not know that it is closed.
    lost = type(error) in {psycopg2.OperationalError, psycopg2.DatabaseError}
    return ErrorKind.CONNECTION_LOST if lost else ErrorKind.SERVER_UNABLE


def kind_of_sqlstate(sqlstate: str) -> ErrorKind:
    """What an error with this SQLSTATE means."""
    if sqlstate in _SCHEMA:
        return ErrorKind.SCHEMA_CHANGED
    if sqlstate.startswith(_LOST):
        return ErrorKind.CONNECTION_LOST
    if sqlstate.startswith(_PASSING):
        return ErrorKind.PASSING
    if sqlstate.startswith(_SERVER):
        return ErrorKind.SERVER_UNABLE
    return ErrorKind.CONFLICT if sqlstate == _UNIQUE_VIOLATION else ErrorKind.TUPLE_REFUSED


def words(error: psycopg2.Error) -> str:
    """PostgreSQL's own words, on one line."""
    return f"{' '.join((error.diag.message_primary or str(error)).split())} [SQLSTATE {error.pgcode}]"


class Refusal(NamedTuple):
    """Why a tuple was refused.

    Attributes:
        reason: in words, as the held tuple keeps it.
        cause: equal for all tuples that are refused for the same reason; None where no change of the table's
            definition would let the tuple in.
    """

    reason: str
    cause: str | None

    @classmethod
    def by_encoder(cls, complaint: str) -> Refusal:
        """For a value that does not fit its column."""
        return cls(complaint, _VALUES.sub("", complaint))

    @classmethod
    def by_server(cls, sqlstate: str, message: str, detail: str, named: str) -> Refusal:
        """For an error that PostgreSQL raised; an empty SQLSTATE stands for a row that it dropped without any.

        Args:
            sqlstate: of the error.
            message: its primary message.
            detail: its detail, or nothing.
            named: the constraint or column that it names, or nothing.
        """
        if not sqlstate:
            told = "PostgreSQL did not store it, and raised no error: a trigger of the table drops it"
            return cls(told, told)
        told = f"PostgreSQL refuses it: {message}{f' ({detail})' if detail else ''}"
        cause = None if sqlstate == _UNIQUE_VIOLATION else f"{sqlstate} {named or _VALUES.sub('', message)}"
        return cls(f"{told[:_LONGEST_WORDS]} [SQLSTATE {sqlstate}]", cause)


def blame_table(fact: FactTable, refusals: Sequence[Refusal], tried: int) -> None:
    """Stop where most tuples are refused for one reason: then the table is at fault, not they.

    Args:
        fact: the table.
        refusals: of tuples.
        tried: all tuples, including those that were not refused.

    Raises:
        LoadBlockedError: the table is at fault. Never raised where the pipeline wants such tuples rejected.
    """
    causes = Counter(refusal.cause for refusal in refusals if refusal.cause is not None)
    if fact.on_refused == "reject" or not causes:
        return
    ((cause, refused),) = causes.most_common(1)
    if refused < _LEAST or 2 * refused <= tried:
        return
    reason = next(refusal.reason for refusal in refusals if refusal.cause == cause)
    told = " ".join(reason.split())[: _LONGEST_WORDS // 2]
    raise LoadBlockedError(
        f"{fact.schema}.{fact.table} refuses {refused:,} of {tried:,} tuples for one reason: {told}. Nothing is "
        f"rejected for that: change the table, and the load goes on by itself. If the tuples are wrong, set "
        f"`on_refused: reject` under `fact` in the pipeline's file, and restart the stream or the reprocessing."
    )
