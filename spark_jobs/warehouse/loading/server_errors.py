"""What a PostgreSQL error means for the load that met it."""

from __future__ import annotations

from enum import Enum, auto

import psycopg2
import psycopg2.errors

_LOST = ("08", "57P01", "57P02", "57P03", "57P05")
_PASSING = ("40001", "40P01", "55P03")
# Data exceptions, broken constraints, check option, refusals raised by triggers and functions, program limits.
_TUPLES = ("09", "22", "23", "2F", "38", "39", "44", "54", "P0")
# Undefined column, table or schema; values of another type's size, which PostgreSQL reports as a broken protocol
# or as invalid binary data.
_SCHEMA = ("42703", "42P01", "3F000", "42804", "22P03", "08P01")


class Meaning(Enum):
    """Kinds of errors, by what is to be done about them."""

    CONNECTION_LOST = auto()  # connect again; whether a commit under way took effect is unknown
    CONFLICT = auto()  # something to be stored is there already
    PASSING = auto()  # deadlock and the like: the same again may succeed
    TUPLE_REFUSED = auto()  # at least one tuple is at fault
    SCHEMA_CHANGED = auto()  # the table is no longer what it was
    OTHER = auto()  # nothing that a loader can mend


class TuplesSuppressedError(psycopg2.DataError):
    """PostgreSQL took fewer tuples than were sent, without an error: a trigger dropped some."""


def meaning(error: psycopg2.Error, *, connection_lost: bool) -> Meaning:
    """What an error means, given whether the connection that raised it is gone."""
    code = error.pgcode or ""
    if code in _SCHEMA and not connection_lost:
        return Meaning.SCHEMA_CHANGED
    if connection_lost or code.startswith(_LOST):
        return Meaning.CONNECTION_LOST
    if isinstance(error, psycopg2.errors.UniqueViolation):
        return Meaning.CONFLICT
    if code in _PASSING:
        return Meaning.PASSING
    if code.startswith(_TUPLES) or isinstance(error, TuplesSuppressedError):
        return Meaning.TUPLE_REFUSED
    return Meaning.OTHER


def refusal(error: psycopg2.Error) -> str:
    """PostgreSQL's own words for refusing a tuple, short enough for a reason."""
    if isinstance(error, TuplesSuppressedError):
        return str(error)
    message = error.diag.message_primary or str(error).strip()
    detail = f" ({error.diag.message_detail})" if error.diag.message_detail else ""
    text = f"PostgreSQL refuses it: {message}{detail}"
    return f"{text[:500]} [SQLSTATE {error.pgcode}]"
