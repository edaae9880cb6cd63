"""Stores facts, in one of four modes, from the quickest to tuple by tuple."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg2 import extensions, sql

from spark_jobs.columns.copy_encoding.rows import EncodedRows, encode
from spark_jobs.columns.event_id import event_id_texts, first_of_each
from spark_jobs.loading.event_hashes import hashes_of, with_hashes
from spark_jobs.loading.recent_ids import RECENT_IDS
from spark_jobs.loading.refusals import NOT_OF_TUPLES, Refusal, TuplesSuppressedError, blame_table
from spark_jobs.warehouse.fact_staging import NUMBER, STAGING, staged, staged_names, stored_facts
from spark_jobs.warehouse.fact_table import FactTable

# The staged tuples of a page are stored at once, unless one of them is refused: then one by one. A savepoint around
# each of 4,000 tuples takes 0.14 s.
_INSERT_ACCEPTABLE = """
    DECLARE
        first_of_page tid;
        first_of_next tid;
        one record;
        sent bigint;
        taken bigint;
        message text;
        detail text;
        violated text;
        missing text;
    BEGIN
        FOR page IN 0 .. pg_relation_size({staging_name}::regclass) / current_setting('block_size')::integer - 1 LOOP
            first_of_page := format('(%s,0)', page);
            first_of_next := format('(%s,0)', page + 1);
            BEGIN
                SELECT count(*) INTO sent FROM {staging} WHERE ctid >= first_of_page AND ctid < first_of_next;
                INSERT INTO {fact} ({columns})
                    SELECT {staged_columns} FROM {staging} WHERE ctid >= first_of_page AND ctid < first_of_next;
                GET DIAGNOSTICS taken = ROW_COUNT;
                IF taken <> sent THEN
                    RAISE 'a trigger dropped some';
                END IF;
            EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
                FOR one IN SELECT * FROM {staging} WHERE ctid >= first_of_page AND ctid < first_of_next LOOP
                    BEGIN
                        INSERT INTO {fact} ({columns}) SELECT {staged_columns_of_one};
                        GET DIAGNOSTICS taken = ROW_COUNT;
                        IF taken = 0 THEN
                            INSERT INTO freshet_refused VALUES (one.number, '', '', '', '');
                        END IF;
                    EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
                        IF SQLSTATE ~ {not_of_tuples} THEN
                            RAISE;
                        END IF;
                        GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
                            violated = CONSTRAINT_NAME, missing = COLUMN_NAME;
                        INSERT INTO freshet_refused VALUES
                            (one.number, SQLSTATE, message, detail, violated || missing);
                    END;
                END LOOP;
            END;
        END LOOP;
    END
"""
Bools = NDArray[np.bool_]
_READ_BYTES = 1 << 20
_SAMPLE = 256


class StorageMode(IntEnum):
    """How to store facts. Each mode can do all that those before it can."""

    OPTIMISTIC = 0  # straight into the table: none may be stored already
    WATCHFUL = 1  # only those that are not stored already, looking for those that were likely loaded lately
    CAREFUL = 2  # the same, looking for all
    TUPLE_BY_TUPLE = 3  # the same, and none of those that PostgreSQL refuses


class StoredFacts(NamedTuple):
    """What became of n facts.

    Attributes:
        new: which were stored, bool, shape (n,).
        refused: number of each fact that PostgreSQL refused -> why. One that another session has stored
            meanwhile is refused as well.
    """

    new: Bools
    refused: dict[int, Refusal]


def store(
    cursor: extensions.cursor,
    fact: FactTable,
    tuples: pa.Table,
    rows: EncodedRows,
    mode: StorageMode,
    pipeline: str | None = None,
) -> StoredFacts:
    """Store facts; what is neither new nor refused afterwards was stored already.

    Args:
        cursor: in a transaction.
        fact: the fact table.
        tuples: shape (n,), all of whose values fit.
        rows: the same tuples, encoded for the table.
        mode: how.
        pipeline: whose stream loads them; None if another way does, for which what was loaded lately tells nothing.

    Raises:
        LoadBlockedError: PostgreSQL refuses most for one reason.
        psycopg2.errors.UniqueViolation: some are stored already, and the mode does not expect that.
        psycopg2.Error: PostgreSQL refuses some, and the mode does not expect that; or any other error.
    """
    if mode is StorageMode.OPTIMISTIC:
        _copy(cursor, fact, rows)
        return StoredFacts(np.ones(rows.count, np.bool_), {})
    hashes = hashes_of(with_hashes(tuples, fact.key))
    tuples = tuples.select(list(dict.fromkeys(column.source for column in fact.columns)))
    new = _first_of_each(tuples, fact, hashes)
    if mode is StorageMode.TUPLE_BY_TUPLE:
        return _tuple_by_tuple(cursor, fact, tuples, new)
    suspects = new.copy()
    if mode is StorageMode.WATCHFUL and pipeline is not None:
        suspects &= RECENT_IDS.among(pipeline, hashes)
    asked = np.flatnonzero(suspects)
    new[asked] = ~stored_facts(cursor, fact, tuples.take(pa.array(asked)))
    _copy(cursor, fact, rows if new.all() else encode(tuples.filter(pa.array(new)), fact.targets).rows)
    return StoredFacts(new, {})


def _copy(cursor: extensions.cursor, fact: FactTable, rows: EncodedRows) -> None:
    if not rows.count:
        return
    columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in fact.columns)
    copy = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(fact.identifier, columns)
    cursor.copy_expert(copy, rows.stream(), size=_READ_BYTES)
    if cursor.rowcount != rows.count:
        raise TuplesSuppressedError("PostgreSQL did not store it, and raised no error: a trigger of the table drops it")


def _tuple_by_tuple(cursor: extensions.cursor, fact: FactTable, tuples: pa.Table, first: Bools) -> StoredFacts:
    new = first & ~stored_facts(cursor, fact, tuples)
    candidates = np.flatnonzero(new)
    if len(candidates) > _SAMPLE:
        # Refusing all of a large chunk would take seconds.
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
    refused = _insert_acceptable(cursor, fact, tuples.take(pa.array(chosen)))
    blame_table(fact, list(refused.values()), len(chosen))
    return {int(chosen[number]): refusal for number, refusal in refused.items()}


def _first_of_each(tuples: pa.Table, fact: FactTable, hashes: NDArray[np.int64]) -> Bools:
    return first_of_each(hashes, lambda numbers: event_id_texts(tuples.take(pa.array(numbers)), fact.key))


def _insert_acceptable(cursor: extensions.cursor, fact: FactTable, tuples: pa.Table) -> dict[int, Refusal]:
    """Insert those tuples that PostgreSQL does not refuse.

    Args:
        cursor: in a transaction, whose deferred constraints are immediate.
        fact: the fact table.
        tuples: shape (n,), all of whose values fit.

    Returns:
        number of each tuple that was refused -> why.

    Raises:
        psycopg2.Error: an error that no single tuple is to blame for.
    """
    columns = [sql.Identifier(column.name) for column in fact.columns]
    names = staged_names(fact.columns)
    body = sql.SQL(_INSERT_ACCEPTABLE).format(
        staging=STAGING,
        staging_name=sql.Literal(STAGING.string),
        fact=fact.identifier,
        columns=sql.SQL(", ").join(columns),
        staged_columns=sql.SQL(", ").join(names),
        staged_columns_of_one=sql.SQL(", ").join(sql.SQL("one.{}").format(name) for name in names),
        not_of_tuples=sql.Literal(f"^({'|'.join(NOT_OF_TUPLES)})"),
    )
    cursor.execute(
        "CREATE TEMPORARY TABLE freshet_refused "
        "(number bigint, sqlstate text, message text, detail text, named text) ON COMMIT DROP"
    )
    with staged(cursor, fact, fact.columns, tuples):
        cursor.execute(sql.SQL("DO {}").format(sql.Literal(body.as_string(cursor))))
    cursor.execute(sql.SQL("SELECT * FROM freshet_refused ORDER BY {}").format(NUMBER))
    refused = {number: Refusal.by_server(*told) for number, *told in cursor.fetchall()}
    cursor.execute("DROP TABLE freshet_refused")
    return refused
