"""Whether the columns that lookups read have the types with which they were described: the bytes of R don't tell."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from psycopg2 import extensions

from spark_jobs.errors import SchemaMismatchError
from spark_jobs.lookup.relation.relation_spec import RelationSpec

# Of the modifiers only that of numeric decides how values are read. Each relation by its name, as it is read.
_DECLARED = """
    SELECT string_agg(concat_ws(' ', a.attname, a.atttypid,
        CASE WHEN a.atttypid = 'numeric'::regtype THEN a.atttypmod END), ', ' ORDER BY a.attname)
    FROM jsonb_to_recordset(%s) AS read (number int, schema text, "table" text, columns jsonb)
        LEFT JOIN pg_namespace AS n ON n.nspname = read.schema
        LEFT JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = read."table"
        LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            AND read.columns ? a.attname::text
    GROUP BY read.number ORDER BY read.number
"""


def declared_types(connection: extensions.connection, reads: Iterable[tuple[str, str, Sequence[str]]]) -> list[str]:
    """The types of some columns, as a text to compare; one query.

    Args:
        connection: where R is.
        reads: schema, table and columns of each relation.
    """
    read = [
        {"number": number, "schema": schema, "table": table, "columns": list(columns)}
        for number, (schema, table, columns) in enumerate(reads)
    ]
    with connection.cursor() as cursor:
        cursor.execute(_DECLARED, [json.dumps(read)])
        return [declared or "" for (declared,) in cursor.fetchall()]


def check_types(connection: extensions.connection, specs: Iterable[RelationSpec]) -> None:
    """Check, once relations were read, that they were read by their types. One query; none where nothing is read.

    Raises:
        SchemaMismatchError: a column has another type now, or is gone: what was read of it may mean something else.
    """
    specs = [spec for spec in specs if spec.declared is not None]
    if not specs:
        return
    found = declared_types(connection, ((spec.schema, spec.table, spec.columns) for spec in specs))
    for spec, declared in zip(specs, found, strict=True):
        if declared != spec.declared:
            raise SchemaMismatchError(
                f"A column of {spec.relation} that is looked up has another type now, or is gone. Nothing that was "
                "read of it since is loaded. Where the new type fits the pipeline, its stream starts anew by itself."
            )
