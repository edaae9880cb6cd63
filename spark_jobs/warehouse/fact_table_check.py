"""Reads the fact table of a pipeline from the catalog, and checks that it takes what the pipeline loads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from psycopg2 import extensions

from spark_jobs.columns.copy_encoding.column_encoder import PostgresType
from spark_jobs.columns.copy_encoding.rows import encoder_for
from spark_jobs.definition.stream_tuple import BATCH_NO
from spark_jobs.errors import SchemaMismatchError

if TYPE_CHECKING:
    from spark_jobs.definition import PipelineDefinition
from spark_jobs.warehouse.fact_table import FactColumn, FactTable
from spark_jobs.warehouse.part_table import nullable_complaints, part_tables

# Equal values of these types always look the same, so that an event id has one form only.
_EVENT_ID_TYPES = (
    "int2", "int4", "int8", "numeric", "bool", "text", "varchar", "uuid", "date", "timestamp", "timestamptz",
)  # fmt: skip


class _Column(NamedTuple):
    name: str
    type: PostgresType
    not_null: bool
    has_default: bool
    computed: bool
    deterministic: bool


def describe_fact_table(
    connection: extensions.connection, definition: PipelineDefinition, tuple_types: Mapping[str, pa.DataType]
) -> FactTable:
    """Read the fact table from the catalog, and check that the pipeline can load it.

    Args:
        connection: to the warehouse.
        definition: the pipeline.
        tuple_types: arrow type of every column of the joined stream tuple, fetched ones included.

    Raises:
        SchemaMismatchError: it can't; the message holds every problem, each with what to do.
    """
    schema, table = definition.fact.table.split(".", 1)
    with connection, connection.cursor() as cursor:
        oid, problems = _find_table(cursor, schema, table, updated=definition.accumulates)
        if oid is None:
            raise _mismatch(definition, problems)
        found = _read_columns(cursor, oid)
        keys = _read_keys(cursor, oid)
    tuple_types = {**tuple_types, BATCH_NO: pa.int64()}
    columns = []
    for name, source in definition.fact.columns.items():
        complaint = _column_complaint(found.get(name), name, source, tuple_types)
        if complaint is not None:
            problems.append(complaint)
        else:
            column = found[name]
            columns.append(FactColumn(name, source, tuple_types[source], column.type, not column.not_null))
    problems += _unfilled_columns(found.values(), definition.fact.columns)
    loaded = {name: source for name, source in definition.fact.columns.items() if name in found}
    key = _matching_key(keys, loaded, definition.source.event_id)
    if key is None:
        problems.append(_key_complaint(keys, definition))
    else:
        problems += _event_id_complaints([found[name] for name in key])
    if problems:
        raise _mismatch(definition, problems)
    assert key is not None
    fact = FactTable(schema, table, tuple(columns), key, definition.fact.on_refused)
    complaints = list(_part_complaints(definition, fact, found))
    if complaints:
        raise _mismatch(definition, complaints)
    return fact


def _part_complaints(definition: PipelineDefinition, fact: FactTable, found: Mapping[str, _Column]) -> Iterator[str]:
    """What keeps a row from being filled in part by part, or from lacking some for good."""
    if definition.accumulates:
        parts = part_tables(definition, fact)
        yield from nullable_complaints(definition, parts)
        for part in parts:
            yield from _identity_complaints(found[column.name] for column in part.event_id)
    elif definition.correlate is not None:
        for column in fact.columns:
            if not column.nullable and column.source.partition(".")[0] in definition.correlate.lacking:
                yield (
                    f"column {column.name} is NOT NULL, but gets {column.source}, which is null where that part is "
                    f"missing (expired: emit); ALTER COLUMN {column.name} DROP NOT NULL"
                )


def _mismatch(definition: PipelineDefinition, problems: Iterable[str]) -> SchemaMismatchError:
    return SchemaMismatchError(
        "\n".join([f"Pipeline {definition.name} can't load {definition.fact.table}:", *(f"  {p}" for p in problems)])
    )


def _find_table(cursor: extensions.cursor, schema: str, table: str, *, updated: bool) -> tuple[int | None, list[str]]:
    cursor.execute(
        """
        SELECT c.oid, c.relkind IN ('r', 'p'), c.relhasrules, row_security_active(c.oid),
               has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'INSERT')
                   AND has_any_column_privilege(c.oid, 'SELECT')
                   AND (has_any_column_privilege(c.oid, 'UPDATE') OR NOT %s)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
        """,
        [updated, schema, table],
    )
    row = cursor.fetchone()
    if row is None:
        return None, [
            f"there is no such table; create it, with the event id as its primary key, in database {_database(cursor)}"
        ]
    oid, is_table, has_rules, hides_rows, granted = row
    if not is_table:
        return None, ["it is not a table; facts go into plain or partitioned tables only"]
    problems = []
    if has_rules:
        problems.append("it has rewrite rules, which COPY passes by; drop them, or use triggers instead")
    if hides_rows:
        problems.append(
            f"its row security hides facts from the role {cursor.connection.info.user}, which could store them twice; "
            "load it as its owner, or as a role with BYPASSRLS"
        )
    encoding = cursor.connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        problems.append(
            f"the database's encoding is {encoding}, which can't keep every text; create it with ENCODING 'UTF8'"
        )
    if not granted:
        problems.append(
            f"the role {cursor.connection.info.user} may not load it; "
            f"GRANT USAGE on its schema, and SELECT, INSERT{', UPDATE' if updated else ''} on the table"
        )
    return oid, problems


def _database(cursor: extensions.cursor) -> str:
    return cursor.connection.info.dbname


def _read_columns(cursor: extensions.cursor, oid: int) -> dict[str, _Column]:
    cursor.execute(
        """
        SELECT a.attname, t.typname, format_type(a.atttypid, a.atttypmod), a.atttypmod, a.attnotnull,
               a.atthasdef OR a.attidentity <> '', a.attgenerated <> '' OR a.attidentity = 'a',
               coalesce(l.collisdeterministic, true)
        FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation l ON l.oid = a.attcollation
        WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
        """,
        [oid],
    )
    return {
        name: _Column(name, PostgresType.from_catalog(base, text, modifier), not_null, default, computed, deterministic)
        for name, base, text, modifier, not_null, default, computed, deterministic in cursor.fetchall()
    }


def _read_keys(cursor: extensions.cursor, oid: int) -> list[tuple[str, ...]]:
    """Columns of each unique index that keeps an event id from being stored twice."""
    cursor.execute(
        """
        SELECT array_agg(a.attname::text ORDER BY k.position)
        FROM pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attribute, position), pg_attribute a
        WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate
            AND i.indpred IS NULL AND i.indexprs IS NULL AND k.position <= i.indnkeyatts
            AND a.attrelid = i.indrelid AND a.attnum = k.attribute
        GROUP BY i.indexrelid, i.indisprimary ORDER BY i.indisprimary DESC, i.indexrelid
        """,
        [oid],
    )
    return [tuple(names) for (names,) in cursor.fetchall()]


def _column_complaint(
    column: _Column | None, name: str, source: str, tuple_types: Mapping[str, pa.DataType]
) -> str | None:
    if column is None:
        return f"column {name} does not exist; add it, or take it out of fact.columns"
    if column.computed:
        return f"column {name} is generated by PostgreSQL; take it out of fact.columns"
    if source not in tuple_types:
        return f"column {name} is to get {source}, which neither the source nor a lookup gives"
    if source == BATCH_NO and column.type.name != "int8":
        return f"column {name} is to get the load's number, but is of type {column.type.sql}; make it a bigint"
    try:
        encoder_for(column.type, tuple_types[source])
    except SchemaMismatchError as error:
        return f"column {name} (from {source}): {error}. Change the column, or the type in source.schema"
    return None


def _unfilled_columns(columns: Iterable[_Column], loaded: Mapping[str, str]) -> list[str]:
    return [
        f"column {column.name} is NOT NULL and has no default, but the pipeline does not fill it; "
        f"add it to fact.columns, or give it a default"
        for column in columns
        if column.not_null and not column.has_default and not column.computed and column.name not in loaded
    ]


def _matching_key(
    keys: Iterable[tuple[str, ...]], loaded: Mapping[str, str], event_id: tuple[str, ...]
) -> tuple[str, ...] | None:
    """The key whose columns get exactly the event id, in the order of the event id."""
    for key in keys:
        by_source = {loaded[name]: name for name in key if name in loaded}
        if len(key) == len(by_source) and set(by_source) == set(event_id):
            return tuple(by_source[source] for source in event_id)
    return None


def _key_complaint(keys: Iterable[tuple[str, ...]], definition: PipelineDefinition) -> str:
    wanted = [
        next((name for name, source in definition.fact.columns.items() if source == part), f"<column for {part}>")
        for part in definition.source.event_id
    ]
    there = "; ".join(f"({', '.join(key)})" for key in keys) or "none"
    return (
        f"no primary key or unique constraint has exactly the event id's columns ({', '.join(wanted)}), "
        f"so a tuple sent twice would be stored twice. Unique now: {there}. "
        f"Add PRIMARY KEY ({', '.join(wanted)}), not deferrable"
    )


def _event_id_complaints(key: Sequence[_Column]) -> Iterator[str]:
    yield from _identity_complaints(key)
    for column in key:
        if not column.not_null:
            yield f"column {column.name} is part of the event id, but takes nulls; declare it NOT NULL"


def _identity_complaints(columns: Iterable[_Column]) -> Iterator[str]:
    """Columns in which equal event ids may look different, or different ones equal."""
    for column in columns:
        if column.type.name not in _EVENT_ID_TYPES or column.type.fraction not in (None, 6):
            yield (
                f"column {column.name} is part of the event id, which can't be of type {column.type.sql}; "
                f"use an integer, numeric, boolean, text, varchar, uuid, date or timestamp"
            )
        if not column.deterministic:
            yield (
                f"column {column.name} is part of the event id, but its collation takes different texts as equal; "
                f'use a deterministic one, such as COLLATE "C"'
            )
