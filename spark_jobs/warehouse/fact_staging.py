"""A temporary table beside the fact table: compares tuples with the facts inside PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg2 import extensions, sql

from spark_jobs.warehouse.copy_encoding.column_encoder import PostgresType, Target
from spark_jobs.warehouse.copy_encoding.rows import encode
from spark_jobs.warehouse.event_id import parse_event_ids
from spark_jobs.warehouse.fact_table import FactColumn, FactTable

Int64Array = NDArray[np.int64]
Bools = NDArray[np.bool_]

STAGING = sql.Identifier("freshet_staging")
NUMBER = sql.Identifier("number")


def stored_facts(cursor: extensions.cursor, fact: FactTable, tuples: pa.Table) -> Bools:
    """Which of these tuples' event ids are facts already.

    Args:
        cursor: in a transaction; what that has stored itself counts.
        fact: the fact table.
        tuples: shape (n,), with the source columns of the fact table's key.

    Returns:
        bool, shape (n,). One COPY, and an index probe each.
    """
    stored = np.zeros(tuples.num_rows, np.bool_)
    if tuples.num_rows:
        with staged(cursor, fact, fact.key, tuples):
            cursor.execute(_numbers_of_facts(fact, fact.key))
            stored[[number for (number,) in cursor.fetchall()]] = True
    return stored


def stored_event_ids(cursor: extensions.cursor, fact: FactTable, event_ids: Sequence[str]) -> Bools:
    """As `stored_facts`, for event ids in their canonical text; bool, shape (n,).

    What stands for an id that no fact can have, or is that of a tuple of one of several streams, is none.
    """
    stored = np.zeros(len(event_ids), np.bool_)
    possible = np.array([number for number, text in enumerate(event_ids) if text.startswith("[")], np.int64)
    keys, numbers = parse_event_ids([event_ids[number] for number in possible], fact.key)
    stored[possible[numbers]] = stored_facts(cursor, fact, keys)
    return stored


def insert_unstored(cursor: extensions.cursor, fact: FactTable, tuples: pa.Table) -> tuple[Bools, int]:
    """Insert those tuples whose event ids are no facts yet, in the order of the key.

    The order keeps two loaders of the same tuples from waiting for each other in a circle.

    Args:
        cursor: in a transaction.
        fact: the fact table.
        tuples: shape (n,), all of whose values fit, with no event id twice.

    Returns:
        which tuples are new, bool, shape (n,), and how many rows PostgreSQL took for them: fewer only if a trigger
        dropped some.

    Raises:
        psycopg2.errors.UniqueViolation: another session has stored one of them meanwhile, or another unique
            constraint of the table is in the way.
    """
    new = np.ones(tuples.num_rows, np.bool_)
    with staged(cursor, fact, fact.columns, tuples):
        cursor.execute(
            sql.SQL("DELETE FROM {} WHERE {} IN ({}) RETURNING {}").format(
                STAGING, NUMBER, _numbers_of_facts(fact, fact.columns), NUMBER
            )
        )
        new[[number for (number,) in cursor.fetchall()]] = False
        numbered = dict(zip((column.name for column in fact.columns), staged_names(fact.columns), strict=True))
        cursor.execute(
            sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} ORDER BY {}").format(
                fact.identifier,
                sql.SQL(", ").join(map(sql.Identifier, numbered)),
                sql.SQL(", ").join(numbered.values()),
                STAGING,
                sql.SQL(", ").join(numbered[name] for name in fact.event_id),
            )
        )
        inserted = cursor.rowcount
    return new, inserted


@contextmanager
def staged(
    cursor: extensions.cursor, fact: FactTable, columns: Sequence[FactColumn], tuples: pa.Table
) -> Iterator[None]:
    """Have the tuples in the temporary table, numbered from 0; those with a value that doesn't fit are left out."""
    names = staged_names(columns)
    cursor.execute(
        sql.SQL(
            "CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT NULL::bigint AS {}, {} FROM {} WITH NO DATA"
        ).format(
            STAGING,
            NUMBER,
            sql.SQL(", ").join(
                sql.SQL("{} AS {}").format(sql.Identifier(column.name), name)
                for column, name in zip(columns, names, strict=True)
            ),
            fact.identifier,
        )
    )
    numbered = pa.table(
        [pa.array(np.arange(tuples.num_rows)), *(tuples[column.source] for column in columns)],
        names=["number", *(name.string for name in names)],
    )
    targets = [Target("number", "number", PostgresType("int8", "bigint"), nullable=False)]
    targets += [
        Target(column.name, name.string, column.type, column.nullable)
        for column, name in zip(columns, names, strict=True)
    ]
    rows = encode(numbered, targets).rows
    copy = sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(STAGING)
    cursor.copy_expert(copy, rows.stream(), size=1 << 20)
    yield
    # After an error the transaction ends, and with it the table.
    cursor.execute(sql.SQL("DROP TABLE {}").format(STAGING))


def staged_names(columns: Sequence[FactColumn]) -> list[sql.Identifier]:
    """Names of these columns in the temporary table."""
    return [sql.Identifier(f"column_{k}") for k in range(len(columns))]


def _numbers_of_facts(fact: FactTable, columns: Sequence[FactColumn]) -> sql.Composable:
    """Query for the numbers of staged tuples, which have these columns, whose event ids are facts.

    It is written so that PostgreSQL has no choice but to probe the key's index: with the few statistics that it has
    of a temporary table it tends to read the whole fact table.
    """
    names = dict(zip((column.name for column in columns), staged_names(columns), strict=True))
    same_key = sql.SQL(" AND ").join(
        sql.SQL("f.{} = s.{}").format(sql.Identifier(name), names[name]) for name in fact.event_id
    )
    return sql.SQL("SELECT s.{} FROM {} s, LATERAL (SELECT FROM {} f WHERE {} LIMIT 1) f").format(
        NUMBER, STAGING, fact.identifier, same_key
    )
