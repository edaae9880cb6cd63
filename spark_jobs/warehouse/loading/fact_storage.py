"""The ways to store facts, from the quickest to the most patient."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg2 import extensions, sql

from spark_jobs.warehouse.copy_encoding.rows import EncodedRows, encode
from spark_jobs.warehouse.event_id import event_id_texts
from spark_jobs.warehouse.fact_table import FactTable
from spark_jobs.warehouse.loading.bisection import store_by_halves
from spark_jobs.warehouse.loading.server_errors import TuplesSuppressedError
from spark_jobs.warehouse.loading.staging import insert_unstored, stored_facts

Bools = NDArray[np.bool_]
_READ_BYTES = 1 << 20


class Way(IntEnum):
    """How to store facts. Each way can do all that those before it can."""

    OPTIMISTIC = 0  # straight into the table: none may be stored already
    CAREFUL = 1  # only those that are not stored already
    BY_HALVES = 2  # the same, and none of those that PostgreSQL refuses


class StoredFacts(NamedTuple):
    """What became of n facts.

    Attributes:
        new: which were stored, bool, shape (n,).
        refused: number of each fact that PostgreSQL refused -> its words. One that another session has stored
            meanwhile is refused as well.
    """

    new: Bools
    refused: dict[int, str]


def store(cursor: extensions.cursor, fact: FactTable, tuples: pa.Table, rows: EncodedRows, way: Way) -> StoredFacts:
    """Store facts; what is neither new nor refused afterwards was stored already.

    Args:
        cursor: in a transaction.
        fact: the fact table.
        tuples: shape (n,), all of whose values fit.
        rows: the same tuples, encoded for the table.
        way: how.

    Raises:
        psycopg2.errors.UniqueViolation: some are stored already, and the way does not expect that.
        psycopg2.Error: PostgreSQL refuses some, and the way does not expect that; or any other error.
    """
    if way is Way.OPTIMISTIC:
        _copy(cursor, fact, rows, 0, rows.count)
        return StoredFacts(np.ones(rows.count, np.bool_), {})
    return _careful(cursor, fact, tuples) if way is Way.CAREFUL else _by_halves(cursor, fact, tuples)


def _copy(cursor: extensions.cursor, fact: FactTable, rows: EncodedRows, start: int, stop: int) -> None:
    if start == stop:
        return
    columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in fact.columns)
    copy = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(fact.identifier, columns)
    cursor.copy_expert(copy, rows.stream(start, stop), size=_READ_BYTES)
    _check_count(cursor.rowcount, stop - start)


def _check_count(taken: int, sent: int) -> None:
    if taken != sent:
        raise TuplesSuppressedError("PostgreSQL did not store it, and raised no error: a trigger of the table drops it")


def _careful(cursor: extensions.cursor, fact: FactTable, tuples: pa.Table) -> StoredFacts:
    new = _first_of_each(tuples, fact)
    candidates = np.flatnonzero(new)
    unstored, taken = insert_unstored(cursor, fact, tuples.take(pa.array(candidates)))
    _check_count(taken, int(np.count_nonzero(unstored)))
    new[candidates] = unstored
    return StoredFacts(new, {})


def _by_halves(cursor: extensions.cursor, fact: FactTable, tuples: pa.Table) -> StoredFacts:
    new = _first_of_each(tuples, fact) & ~stored_facts(cursor, fact, tuples)
    candidates = np.flatnonzero(new)
    rows = encode(tuples.take(pa.array(candidates)), [column.target for column in fact.columns]).rows
    stored, refusals = store_by_halves(
        cursor, len(candidates), lambda start, stop: _copy(cursor, fact, rows, start, stop)
    )
    new[candidates] = stored
    return StoredFacts(new, {int(candidates[row]): words for row, words in refusals.items()})


def _first_of_each(tuples: pa.Table, fact: FactTable) -> Bools:
    """True for the first tuple of each event id, bool, shape (n,)."""
    first = np.zeros(tuples.num_rows, np.bool_)
    codes = event_id_texts(tuples, fact.key).dictionary_encode().indices.to_numpy()
    first[np.unique(codes, return_index=True)[1]] = True
    return first
