"""Fills parts into rows of the fact table that are there already, and tells which rows have such a part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg2 import extensions, sql

from spark_jobs.columns.event_id import event_id_texts
from spark_jobs.loading.fact_storage import StorageMode
from spark_jobs.loading.refusals import NOT_OF_TUPLES, Refusal, TuplesSuppressedError, blame_table
from spark_jobs.warehouse.fact_staging import NUMBER, STAGING, staged, staged_names
from spark_jobs.warehouse.fact_table import FactColumn
from spark_jobs.warehouse.part_table import PartTable

Bools = NDArray[np.bool_]

# A statement of its own for each part has only the key to go by. Of one that joins them all with the fact table,
# PostgreSQL compares each part with each row where it takes the rows that lack one for few: all had theirs when it
# looked last. That is why it is not told, either, that this asks for nulls: an index of that column is none to go by.
_FILL_ONE = "UPDATE {fact} AS f SET {filled} WHERE {same_key} AND num_nulls(f.{presence}) = 1"
_FILL = """
    DECLARE
        one record;
        filled bigint[] := ARRAY[]::bigint[];
    BEGIN
        FOR one IN SELECT * FROM {staging} ORDER BY {key} LOOP
            {fill_one};
            IF FOUND THEN
                filled := filled || one.number;
            END IF;
        END LOOP;
        PERFORM set_config('freshet.filled', filled::text, true);
    END
"""
# Each with a savepoint of its own, too: what PostgreSQL refuses costs itself only.
_FILL_ACCEPTABLE = """
    DECLARE
        one record;
        taken bigint;
        message text;
        detail text;
        violated text;
        missing text;
    BEGIN
        FOR one IN SELECT * FROM {staging} LOOP
            BEGIN
                {fill_one};
                GET DIAGNOSTICS taken = ROW_COUNT;
                IF taken = 1 THEN
                    INSERT INTO freshet_filled VALUES (one.number);
                END IF;
            EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
                IF SQLSTATE ~ {not_of_tuples} THEN
                    RAISE;
                END IF;
                GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
                    violated = CONSTRAINT_NAME, missing = COLUMN_NAME;
                INSERT INTO freshet_filled VALUES (one.number, SQLSTATE, message, detail, violated || missing);
            END;
        END LOOP;
    END
"""


class Filled(NamedTuple):
    """What became of n parts, each of another key.

    Attributes:
        filled: which were filled in, bool, shape (n,).
        there: number of each other part whose row has a part of its stream -> canonical text of that one's event id.
        no_row: which have no row, bool, shape (n,).
        refused: number of each part that PostgreSQL refused -> why.
    """

    filled: Bools
    there: dict[int, str]
    no_row: Bools
    refused: dict[int, Refusal]


def fill(cursor: extensions.cursor, part: PartTable, tuples: pa.Table, mode: StorageMode) -> Filled:
    """Fill parts into their rows, where these have none of their stream yet.

    Args:
        cursor: in a transaction.
        part: what they fill.
        tuples: shape (n,), all of whose values fit, with no key twice.
        mode: tuple by tuple, where PostgreSQL may refuse some.

    Raises:
        LoadBlockedError: it refuses most for one reason.
        psycopg2.Error: it refuses some, and the mode does not expect that; or any other error. It costs two index
            probes a part where it has a row, one where it has none.
    """
    count = tuples.num_rows
    filled, no_row = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    if not count:
        return Filled(filled, {}, no_row, {})
    refused: dict[int, Refusal] = {}
    columns = part.table.columns
    with staged(cursor, part.table, columns, tuples):
        if part.presence is not None:
            if mode is StorageMode.TUPLE_BY_TUPLE:
                numbers, refused = _fill_acceptable(cursor, part)
                blame_table(part.table, list(refused.values()), count)
            else:
                numbers = _fill(cursor, part)
            filled[numbers] = True
        left = [number for number in np.flatnonzero(~filled).tolist() if number not in refused]
        there = _there(cursor, part, columns, left) if left else {}
    suppressed = [number for number, text in there.items() if text is None]
    if suppressed and mode is not StorageMode.TUPLE_BY_TUPLE:
        raise TuplesSuppressedError("PostgreSQL did not store it, and raised no error: a trigger of the table drops it")
    refused |= dict.fromkeys(suppressed, Refusal.by_server("", "", "", ""))
    no_row[[number for number in left if number not in there]] = True
    return Filled(filled, {number: text for number, text in there.items() if text is not None}, no_row, refused)


def _names(columns: Sequence[FactColumn]) -> dict[str, sql.Identifier]:
    """Column of the fact table -> its name in the staging table, which has these."""
    return dict(zip((column.name for column in columns), staged_names(columns), strict=True))


def _fill(cursor: extensions.cursor, part: PartTable) -> list[int]:
    """Numbers of the staged parts that are filled in."""
    _run(cursor, part, _FILL)
    cursor.execute("SELECT unnest(current_setting('freshet.filled')::bigint[])")
    return [number for (number,) in cursor.fetchall()]


def _run(cursor: extensions.cursor, part: PartTable, block: str) -> None:
    """Run a block of PL/pgSQL that takes the staged parts one after the other."""
    names, row = _names(part.table.columns), sql.Identifier("one")
    assert part.presence is not None
    assignments = []
    for column in part.filled:
        value: sql.Composable = sql.SQL("{}.{}").format(row, names[column.name])
        if column.name in part.latest:
            value = sql.SQL("greatest(f.{}, {})").format(sql.Identifier(column.name), value)
        assignments.append(sql.SQL("{} = {}").format(sql.Identifier(column.name), value))
    same_key = [sql.SQL("f.{} = {}.{}").format(sql.Identifier(name), row, names[name]) for name in part.table.event_id]
    fill_one = sql.SQL(_FILL_ONE).format(
        fact=part.table.identifier,
        filled=sql.SQL(", ").join(assignments),
        same_key=sql.SQL(" AND ").join(same_key),
        presence=sql.Identifier(part.presence),
    )
    body = sql.SQL(block).format(
        staging=STAGING,
        key=sql.SQL(", ").join(names[name] for name in part.table.event_id),
        fill_one=fill_one,
        not_of_tuples=sql.Literal(f"^({'|'.join(NOT_OF_TUPLES)})"),
    )
    cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off")
    cursor.execute(sql.SQL("DO {}").format(sql.Literal(body.as_string(cursor))))
    cursor.execute("RESET plan_cache_mode; RESET enable_seqscan")


def _fill_acceptable(cursor: extensions.cursor, part: PartTable) -> tuple[list[int], dict[int, Refusal]]:
    """Numbers of the staged parts that are filled in, and of those that PostgreSQL refuses, with the reasons."""
    cursor.execute(
        "CREATE TEMPORARY TABLE freshet_filled "
        "(number bigint, sqlstate text, message text, detail text, named text) ON COMMIT DROP"
    )
    _run(cursor, part, _FILL_ACCEPTABLE)
    cursor.execute("SELECT * FROM freshet_filled")
    told = cursor.fetchall()
    cursor.execute("DROP TABLE freshet_filled")
    refused = {number: Refusal.by_server(*why) for number, *why in told if why[0] is not None}
    return [number for number, sqlstate, *_ in told if sqlstate is None], refused


def parts_there(cursor: extensions.cursor, part: PartTable, keys: pa.Table) -> dict[int, str | None]:
    """Of keys that have a row: the event id of the part of a stream in it, as canonical text; None if there is none.

    Args:
        cursor: in a transaction.
        part: of which stream.
        keys: shape (n,), with the sources of its key.
    """
    if not keys.num_rows:
        return {}
    with staged(cursor, part.table, part.table.key, keys):
        return _there(cursor, part, part.table.key, range(keys.num_rows))


def _there(
    cursor: extensions.cursor, part: PartTable, columns: Sequence[FactColumn], numbers: Sequence[int]
) -> dict[int, str | None]:
    """As `parts_there`, for some of the tuples that are staged with these columns."""
    names = _names(columns)
    same_key = [sql.SQL("f.{} = s.{}").format(sql.Identifier(name), names[name]) for name in part.table.event_id]
    wanted = sql.SQL(", ").join(sql.SQL("f.{}").format(sql.Identifier(column.name)) for column in part.event_id)
    cursor.execute(
        sql.SQL(
            "SELECT s.{}, f.* FROM {} AS s, LATERAL (SELECT {} FROM {} AS f WHERE {} LIMIT 1) AS f "
            "WHERE s.{} IN (SELECT unnest(%s::bigint[]))"
        ).format(NUMBER, STAGING, wanted, part.table.identifier, sql.SQL(" AND ").join(same_key), NUMBER),
        [list(numbers)],
    )
    found = cursor.fetchall()
    values = [pa.array([row[k + 1] for row in found], each.source_type) for k, each in enumerate(part.event_id)]
    texts = event_id_texts(pa.table(values, names=[each.source for each in part.event_id]), part.event_id)
    return dict(zip((row[0] for row in found), texts.to_pylist(), strict=True))
