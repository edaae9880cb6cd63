"""DDL of the fact table that a pipeline wants."""

from __future__ import annotations

import re
from collections.abc import Mapping

from psycopg2 import extensions

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.ddl import StreamType
from spark_jobs.definition.stream_tuple import BATCH_NO
from spark_jobs.errors import SchemaMismatchError

_TYPES = {
    "bigint": "bigint",
    "int": "integer",
    "smallint": "smallint",
    "tinyint": "smallint",
    "double": "double precision",
    "float": "real",
    "boolean": "boolean",
    "string": "text",
    "date": "date",
    "timestamp": "timestamptz",
    "binary": "bytea",
}
# Words that no column of a table can be called unquoted: catcode R and T of pg_get_keywords(), PostgreSQL 15 to 18.
_RESERVED = frozenset(
    re.findall(
        r"\w+",
        """
    all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation
    column concurrently constraint create cross current_catalog current_date current_role current_schema current_time
    current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze
    from full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit
    localtime localtimestamp natural not notnull null offset on only or order outer overlaps placing primary references
    returning right select session_user similar some symmetric system_user table tablesample then to trailing true
    union unique user using variadic verbose when where window with
    """,
    )
)


def fact_ddl(definition: PipelineDefinition, fetched: Mapping[str, str]) -> str:
    """SQL that makes the schema and the fact table of a pipeline, where they are not there yet.

    The event id is the primary key; what comes from the source may be null besides. Columns that are loaded from a
    lookup are as R has them.

    Args:
        definition: the pipeline.
        fetched: SQL type of each output of its lookups.
    """
    tuples = definition.tuples
    schema, _ = definition.fact.table.split(".", 1)
    columns = {
        name: "bigint" if origin == BATCH_NO else fetched.get(origin) or _sql_type(tuples.columns[origin])
        for name, origin in definition.fact.columns.items()
    }
    by_source = {origin: name for name, origin in definition.fact.columns.items()}
    key = [by_source[part] for part in tuples.event_id]
    filled = {*key, *(name for name, origin in definition.fact.columns.items() if origin == BATCH_NO)}
    width = max(len(_quoted(name)) for name in columns)
    lines = [
        f"    {_quoted(name).ljust(width)} {kind}{' NOT NULL' if name in filled else ''}"
        for name, kind in columns.items()
    ]
    lines.append(f"    PRIMARY KEY ({', '.join(map(_quoted, key))})")
    table = ".".join(map(_quoted, definition.fact.table.split(".", 1)))
    body = ",\n".join(lines)
    return f"CREATE SCHEMA IF NOT EXISTS {_quoted(schema)};\nCREATE TABLE IF NOT EXISTS {table} (\n{body}\n);"


def fetched_types(connection: extensions.connection, definition: PipelineDefinition) -> dict[str, str]:
    """SQL type of each output of a pipeline's lookups, as R's columns have it.

    Raises:
        SchemaMismatchError: a relation, or a column of it, is not there; all of them at once.
    """
    found: dict[str, str] = {}
    missing = []
    with connection, connection.cursor() as cursor:
        for lookup in definition.lookups:
            schema, table = lookup.relation.split(".", 1)
            cursor.execute(
                "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
                "JOIN pg_class ON pg_class.oid = attrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace "
                "WHERE nspname = %s AND relname = %s AND attnum > 0 AND NOT attisdropped",
                [schema, table],
            )
            types = dict(cursor.fetchall())
            if not types:
                missing.append(f"{lookup.relation} does not exist, or is not to be seen")
                continue
            for output, column in lookup.fetch.items():
                if column in types:
                    found[output] = types[column]
                else:
                    missing.append(f"{lookup.relation} has no column {column}; it has {', '.join(types)}")
    if missing:
        raise SchemaMismatchError(f"Pipeline {definition.name}: " + "; ".join(missing) + ".")
    return found


def _sql_type(kind: StreamType) -> str:
    return f"numeric({kind.precision},{kind.scale})" if kind.name == "decimal" else _TYPES[kind.name]


def _quoted(name: str) -> str:
    """A name as SQL takes it: quoted where it is a reserved word, or would be read as another."""
    plain = re.fullmatch("[a-z_][a-z0-9_]*", name) and name not in _RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'
