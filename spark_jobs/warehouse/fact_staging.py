"""A temporary table beside the fact table: compares tuples with the facts inside PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg2 import extensions, sql

from spark_jobs.columns.copy_encoding.column_encoder import PostgresType, Target
from spark_jobs.columns.copy_encoding.rows import encode
from spark_jobs.columns.event_id import parse_event_ids
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
        # It is written so that PostgreSQL has no choice but to probe the key's index: with the few statistics that it
        # has of a temporary table it tends to read the whole fact table.
        probe = sql.SQL("SELECT s.{} FROM {} s, LATERAL (SELECT FROM {} f WHERE {} LIMIT 1) f").format(
            NUMBER,
            STAGING,
            fact.identifier,
            sql.SQL(" AND ").join(
                sql.SQL("f.{} = s.{}").format(sql.Identifier(column.name), name)
                for column, name in zip(fact.key, staged_names(fact.key), strict=True)
            ),
        )
        with staged(cursor, fact, fact.key, tuples):
            cursor.execute(probe)
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
