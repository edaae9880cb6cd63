"""The ways to store facts, from the quickest to the most patient."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg2 import extensions, sql

from spark_jobs.loading.refusals import Refusal, blame_table
from spark_jobs.loading.server_errors import TuplesSuppressedError
from spark_jobs.loading.tuple_by_tuple import insert_acceptable
from spark_jobs.warehouse.copy_encoding.rows import EncodedRows
from spark_jobs.warehouse.event_id import event_id_texts
from spark_jobs.warehouse.fact_staging import insert_unstored, stored_facts
from spark_jobs.warehouse.fact_table import FactTable

Bools = NDArray[np.bool_]
_READ_BYTES = 1 << 20
_SAMPLE = 256


class Way(IntEnum):
    """How to store facts. Each way can do all that those before it can."""

    OPTIMISTIC = 0  # straight into the table: none may be stored already
    CAREFUL = 1  # only those that are not stored already
    TUPLE_BY_TUPLE = 2  # the same, and none of those that PostgreSQL refuses


class StoredFacts(NamedTuple):
    """What became of n facts.

    Attributes:
        new: which were stored, bool, shape (n,).
        refused: number of each fact that PostgreSQL refused -> why. One that another session has stored
            meanwhile is refused as well.
    """

    new: Bools
    refused: dict[int, Refusal]


def store(cursor: extensions.cursor, fact: FactTable, tuples: pa.Table, rows: EncodedRows, way: Way) -> StoredFacts:
    """Store facts; what is neither new nor refused afterwards was stored already.

    Args:
        cursor: in a transaction.
        fact: the fact table.
        tuples: shape (n,), all of whose values fit.
        rows: the same tuples, encoded for the table.
        way: how.

    Raises:
        LoadBlockedError: PostgreSQL refuses most for one reason.
        psycopg2.errors.UniqueViolation: some are stored already, and the way does not expect that.
        psycopg2.Error: PostgreSQL refuses some, and the way does not expect that; or any other error.
    """
    if way is Way.OPTIMISTIC:
        _copy(cursor, fact, rows)
        return StoredFacts(np.ones(rows.count, np.bool_), {})
    tuples = tuples.select(list(dict.fromkeys(column.source for column in fact.columns)))
    return _careful(cursor, fact, tuples) if way is Way.CAREFUL else _tuple_by_tuple(cursor, fact, tuples)


def _copy(cursor: extensions.cursor, fact: FactTable, rows: EncodedRows) -> None:
    if not rows.count:
        return
    columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in fact.columns)
    copy = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(fact.identifier, columns)
    cursor.copy_expert(copy, rows.stream(), size=_READ_BYTES)
    _check_count(cursor.rowcount, rows.count)


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


def _tuple_by_tuple(cursor: extensions.cursor, fact: FactTable, tuples: pa.Table) -> StoredFacts:
    new = _first_of_each(tuples, fact) & ~stored_facts(cursor, fact, tuples)
    candidates = np.flatnonzero(new)
    if len(candidates) > _SAMPLE:
        # It would take seconds until all of a large chunk is refused.
        sample = np.sort(np.random.default_rng().choice(candidates, _SAMPLE, replace=False))
        cursor.execute("SAVEPOINT before_sample")
        _insert(cursor, fact, tuples, sample)
        cursor.execute("ROLLBACK TO before_sample")
    refused = _insert(cursor, fact, tuples, candidates)
    new[list(refused)] = False
    return StoredFacts(new, refused)


def _insert(
    cursor: extensions.cursor, fact: FactTable, tuples: pa.Table, chosen: NDArray[np.int64]
) -> dict[int, Refusal]:
    refused = insert_acceptable(cursor, fact, tuples.take(pa.array(chosen)))
    blame_table(fact, list(refused.values()), len(chosen))
    return {int(chosen[number]): refusal for number, refusal in refused.items()}


def _first_of_each(tuples: pa.Table, fact: FactTable) -> Bools:
    """True for the first tuple of each event id, bool, shape (n,)."""
    first = np.zeros(tuples.num_rows, np.bool_)
    codes = event_id_texts(tuples, fact.key).dictionary_encode().indices.to_numpy()
    first[np.unique(codes, return_index=True)[1]] = True
    return first
