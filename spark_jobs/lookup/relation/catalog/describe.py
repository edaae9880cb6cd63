"""Describes a relation for a lookup, and says all that is wrong with it at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
from psycopg2 import extensions

from spark_jobs.columns.copy_decoding.decode import decode_copy
from spark_jobs.errors import SchemaMismatchError
from spark_jobs.lookup.relation.catalog.column_checks import ColumnChecks, suggestion
from spark_jobs.lookup.relation.catalog.columns import read_columns
from spark_jobs.lookup.relation.catalog.declared_types import declared_types
from spark_jobs.lookup.relation.catalog.indexes import choose_indexes, forbids_overlaps, read_indexes
from spark_jobs.lookup.relation.catalog.sizes import row_count
from spark_jobs.lookup.relation.queries import sample_query
from spark_jobs.lookup.relation.reading_connection import copy_out
from spark_jobs.lookup.relation.relation_rows import RelationRows, rows_of
from spark_jobs.lookup.relation.relation_spec import RelationSpec
from spark_jobs.lookup.relation.used_relations import Lookup

_SAMPLED_TUPLES = 1_000
_WITHOUT_INDEXES = {"v": "a view", "f": "a foreign table", "S": "a sequence", "c": "a composite type"}

_TABLE = """
    SELECT c.oid, c.relkind, ARRAY(
        SELECT space.nspname || '.' || heir.relname
        FROM pg_inherits JOIN pg_class AS heir ON heir.oid = inhrelid
            JOIN pg_namespace AS space ON space.oid = heir.relnamespace
        WHERE inhparent = c.oid AND c.relkind = 'r' ORDER BY 1)
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
"""
_TABLE_NAMES = """
    SELECT n.nspname || '.' || c.relname
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
    ORDER BY 1
"""


def describe_relation(
    connection: extensions.connection, lookup: Lookup, stream_types: Mapping[str, pa.DataType]
) -> RelationSpec:
    """Check a lookup against the catalog, and find out how its relation is read.

    Args:
        connection: where R is.
        lookup: the lookup.
        stream_types: Arrow type of each column of the stream.

    Raises:
        SchemaMismatchError: the relation can't be looked up; or it, a column or a unique index on the key (of versions:
            on the key and the begin of their validity) is missing, or types don't fit. The message lists all of that,
            with what to do.
    """
    schema, _, table = lookup.relation.partition(".")
    table_id = _find_table(connection, schema, table)
    read = {*lookup.on.values(), *lookup.fetch.values(), *(lookup.validity or ())}
    [declared] = declared_types(connection, [(schema, table, sorted(read))])  # first: what changes meanwhile is noticed
    columns = read_columns(connection, table_id)
    checks = ColumnChecks(columns, stream_types)
    spec = RelationSpec(
        schema,
        table,
        key=tuple(checks.key_columns(lookup.on)),
        fetched=tuple(checks.fetched_columns(lookup.fetch)),
        validity=checks.validity(lookup.validity),
        declared=declared,
    )
    problems = checks.problems
    if not problems:
        apart = spec.validity is not None and forbids_overlaps(connection, table_id, spec)
        spec, problems = choose_indexes(spec, columns, read_indexes(connection, table_id), versions_apart=apart)
    if problems:
        listed = "\n".join(f"- {problem}" for problem in problems)
        raise SchemaMismatchError(f"The lookup of {lookup.relation} does not fit the relation:\n{listed}")
    spec = _measured(connection, spec)
    rows = row_count(connection, schema, table)
    return replace(spec, row_count=round(rows / spec.versions_per_key))


def _find_table(connection: extensions.connection, schema: str, table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_TABLE, (schema, table))
        found = cursor.fetchone()
        if found is None:
            cursor.execute(_TABLE_NAMES)
            names = [name for (name,) in cursor.fetchall()]
            hint = suggestion(f"{schema}.{table}", names) or f"The relations are: {', '.join(names) or 'none'}."
            raise SchemaMismatchError(f"There is no relation {schema}.{table} in the warehouse. {hint}")
    table_id, kind, heirs = found
    if kind in _WITHOUT_INDEXES:
        raise SchemaMismatchError(
            f"{schema}.{table} is {_WITHOUT_INDEXES[kind]}, which can't have a unique index. "
            "Look up the table under it, or a materialized view with a unique index on the key."
        )
    if heirs:
        raise SchemaMismatchError(
            f"{schema}.{table} has tables that inherit from it, whose rows no unique index on it covers: a key could "
            f"be found twice. They are: {', '.join(heirs)}. Detach them with ALTER TABLE ... NO INHERIT, or look up a "
            "partitioned table, or a materialized view with a unique index on the key."
        )
    return table_id


def _measured(connection: extensions.connection, spec: RelationSpec) -> RelationSpec:
    """With what a tuple takes, on average of some; where R is empty, as one without any text."""
    columns = decode_copy(copy_out(connection, sample_query(spec, _SAMPLED_TUPLES)), spec.read_types)
    rows = rows_of(columns, spec)
    if not len(rows):
        return replace(spec, tuple_bytes=RelationRows.null(spec).nbytes)
    return replace(spec, tuple_bytes=-(-rows.nbytes // len(rows)), versions_per_key=len(columns[0]) / len(rows))
