"""What the catalogue says of the fact table, as far as a validation needs it: it only reads the table."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg2 import extensions, sql

from spark_jobs.columns.copy_encoding.column_encoder import PostgresType
from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.ddl import StreamType
from spark_jobs.definition.stream_tuple import BATCH_NO
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.warehouse.fact_table import FactColumn


@dataclass(frozen=True)
class FactColumns:
    """The columns of a fact table that a pipeline loads.

    Attributes:
        table: the table's name for use in SQL.
        types: name -> name of its type in PostgreSQL, in the order of the definition.
        not_null: names of those that take no nulls.
        event_id: names of those that hold the event id.
        event_time: name of the one that holds the event time; None if there is none.
        batch_no: name of the one that holds the number of the load; None if there is none.
        accumulates: whether later parts fill a fact in: it then has the number of the load that did so last.
        key: those that hold the event id, as loaders know them.
        id_types: the types of the event id's columns in the stream.
    """

    table: sql.Identifier
    types: dict[str, str]
    not_null: tuple[str, ...]
    event_id: tuple[str, ...]
    event_time: str | None
    batch_no: str | None
    accumulates: bool
    key: tuple[FactColumn, ...]
    id_types: tuple[StreamType, ...]


def read_fact_columns(connection: extensions.connection, definition: PipelineDefinition) -> FactColumns:
    """Read them from the catalogue.

    Raises:
        SchemaMismatchError: the table or a column is missing, or we may not read it.
    """
    schema, table = definition.fact.table.split(".", 1)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT a.attname, t.typname, a.attnotnull,
                has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
            FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid
            JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            JOIN pg_type t ON t.oid = a.atttypid
            WHERE n.nspname = %s AND c.relname = %s
            """,
            [schema, table],
        )
        found = {name: (kind, not_null, readable) for name, kind, not_null, readable in cursor.fetchall()}
    _check(definition, found, connection.info.user)
    columns = definition.fact.columns
    by_source = {source: name for name, source in reversed(columns.items())}
    id_types = tuple(definition.source.columns[source] for source in definition.source.event_id)
    key = tuple(
        FactColumn(name, source, kind.arrow(), PostgresType(found[name][0], found[name][0]), nullable=False)
        for source, kind in zip(definition.source.event_id, id_types, strict=True)
        for name in [by_source[source]]
    )
    return FactColumns(
        sql.Identifier(schema, table),
        {name: found[name][0] for name in columns},
        tuple(name for name in columns if found[name][1]),
        tuple(by_source[source] for source in definition.source.event_id),
        by_source.get(definition.source.event_time),
        by_source.get(BATCH_NO),
        definition.accumulates,
        key,
        id_types,
    )


def _check(definition: PipelineDefinition, found: dict[str, tuple[str, bool, bool]], role: str) -> None:
    table = definition.fact.table
    if not found:
        raise SchemaMismatchError(f"There is no table {table}. Create it, as the pipeline {definition.name} needs it.")
    missing = [name for name in definition.fact.columns if name not in found]
    if missing:
        raise SchemaMismatchError(
            f"{table} has no column {', '.join(missing)}. Add it, or take it out of fact.columns of {definition.name}."
        )
    if not all(readable for _, _, readable in found.values()):
        raise SchemaMismatchError(
            f"The role {role} may not read {table}. GRANT USAGE on its schema, and SELECT on the table."
        )
