"""Types of columns in the plain join: what they are, and how values of two types are compared."""

from __future__ import annotations

from typing import Any

from psycopg2 import extensions, sql

from spark_jobs.errors import SchemaMismatchError

_TEXTS = frozenset({"text", "varchar", "bpchar", "name"})
_UUID_DIGITS = "([0-9a-f]{4}-?){7}[0-9a-f]{4}"
_UUID = sql.Literal(rf"^({_UUID_DIGITS}|\{{{_UUID_DIGITS}\}})$")

# Casting a text that is no JSON would end the proof.
CREATE_JSON_READER = """
    CREATE FUNCTION pg_temp.jsonb_or_null(value text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS
    $$ BEGIN RETURN value::jsonb; EXCEPTION WHEN data_exception THEN RETURN NULL; END $$
"""
"""Makes the function that `comparable` calls."""


def table_identifier(table: str) -> sql.Identifier:
    """`schema.table` for use in SQL."""
    return sql.Identifier(*table.split(".", 1))


def column_types(cursor: extensions.cursor, table: str, columns: list[str]) -> dict[str, str]:
    """PostgreSQL's internal names of the columns' types: int8, numeric, timestamptz, ...

    Raises:
        SchemaMismatchError: the table or a column does not exist.
    """
    cursor.execute(
        """
        SELECT attribute.attname, type.typname
        FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        JOIN pg_attribute AS attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
        JOIN pg_type AS type ON type.oid = atttypid
        WHERE nspname = %s AND relname = %s
        ORDER BY attnum
        """,
        table.split(".", 1),
    )
    found = dict(cursor.fetchall())
    if not found:
        raise SchemaMismatchError(f"There is no table {table} in the warehouse; create it, or name another.")
    missing = [column for column in columns if column not in found]
    if missing:
        raise SchemaMismatchError(
            f"{table} has no column {', '.join(missing)}; add it, or name another. Columns: {', '.join(found)}."
        )
    return {column: found[column] for column in columns}


def literal(value: Any, kind: str) -> sql.Composable:
    """A value of a definition as SQL of this type."""
    text = None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return sql.SQL("{}::{}").format(sql.Literal(text), sql.Identifier(kind))


def comparable(value: sql.Composable, given: str, wanted: str) -> sql.Composable:
    """SQL that turns a value of type `given` into one that equals a value of type `wanted` if it is the same.

    Numbers, dates and times compare as they are, without rounding; so do texts, but for char(n), whose
    spaces at the end mean nothing. Where a text is no value of the wanted type, null comes out.
    """
    if wanted == "uuid" and given in _TEXTS:
        return sql.SQL("(CASE WHEN {0} ~* {1} THEN {0}::uuid END)").format(value, _UUID)
    if wanted in {"json", "jsonb"} and given in _TEXTS:
        return sql.SQL("pg_temp.jsonb_or_null({})").format(value) if wanted == "jsonb" else value
    if wanted in _TEXTS and given != wanted:
        return sql.SQL("{}::text::bpchar" if wanted == "bpchar" else "{}::text").format(value)
    if {given, wanted} == {"timestamp", "timestamptz"}:
        return sql.SQL("({} AT TIME ZONE 'UTC')").format(value)
    return value
