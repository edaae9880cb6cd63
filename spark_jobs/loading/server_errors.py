"""What a PostgreSQL error means for the load that met it."""

from __future__ import annotations

from enum import Enum, auto

import psycopg2
import psycopg2.errors

_LOST = ("08", "57P01", "57P02", "57P03", "57P05")
_PASSING = ("40", "55P03")
# Undefined column, table or schema; no right to use them; values of another type's size, which PostgreSQL reports as a
# broken protocol or as invalid binary data.
_SCHEMA = ("42703", "42P01", "3F000", "42501", "42804", "22P03", "08P01")
# Resources, read-only transactions, an operator's intervention, errors of the system, damaged files, configuration.
_SERVER = ("53", "25", "57", "58", "XX001", "XX002", "F0")

NOT_OF_TUPLES = (*_LOST, *_PASSING, *_SCHEMA, *_SERVER)
"""Beginnings of the SQLSTATEs that no tuple is to blame for; triggers may raise any other for one."""

UNIQUE_VIOLATION = "23505"


class Meaning(Enum):
    """Kinds of errors, by what is to be done about them."""

    CONNECTION_LOST = auto()  # connect again; whether a commit under way took effect is unknown
    CONFLICT = auto()  # something to be stored is there already
    PASSING = auto()  # deadlock and the like: the same again may succeed
    TUPLE_REFUSED = auto()  # at least one tuple is at fault
    SCHEMA_CHANGED = auto()  # the table is no longer what it was
    SERVER_UNABLE = auto()  # the server can't do it for now: disk full, read-only, out of memory


class TuplesSuppressedError(psycopg2.DataError):
    """PostgreSQL took fewer tuples than were sent, without an error: a trigger dropped some."""


def meaning(error: psycopg2.Error, *, connection_lost: bool) -> Meaning:
    """What an error means, given whether the connection that raised it is gone."""
    if connection_lost:
        return Meaning.CONNECTION_LOST
    if isinstance(error, TuplesSuppressedError):
        return Meaning.TUPLE_REFUSED
    return Meaning.SERVER_UNABLE if error.pgcode is None else meaning_of(error.pgcode)


def meaning_of(sqlstate: str) -> Meaning:
    """What an error with this SQLSTATE means."""
    if sqlstate in _SCHEMA:
        return Meaning.SCHEMA_CHANGED
    if sqlstate.startswith(_LOST):
        return Meaning.CONNECTION_LOST
    if sqlstate.startswith(_PASSING):
        return Meaning.PASSING
    if sqlstate.startswith(_SERVER):
        return Meaning.SERVER_UNABLE
    return Meaning.CONFLICT if sqlstate == UNIQUE_VIOLATION else Meaning.TUPLE_REFUSED


def words(error: psycopg2.Error) -> str:
    """PostgreSQL's own words, on one line."""
    return f"{' '.join((error.diag.message_primary or str(error)).split())} [SQLSTATE {error.pgcode}]"
