"""How large R is: its tuples, by the planner's estimate or by a count, and whether it fits into memory."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg2 import extensions, sql

_STATISTICS = """
    SELECT c.reltuples::bigint, c.relpages, pg_relation_size(c.oid) / current_setting('block_size')::int
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
"""
_NULLS = """
    SELECT coalesce(max(null_frac), 0)::float8 FROM pg_stats
    WHERE schemaname = %s AND tablename = %s AND attname = ANY(%s)
"""
_FITS_INTO_MEMORY = """
    SELECT pg_total_relation_size(c.oid) < pg_size_bytes(current_setting('shared_buffers'))
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
"""


def estimated_row_count(connection: extensions.connection, schema: str, table: str) -> int | None:
    """Tuples as of the last ANALYZE, scaled by how the table has grown since; None if there never was one. O(1)."""
    with connection.cursor() as cursor:
        cursor.execute(_STATISTICS, (schema, table))
        [(tuples, blocks_then, blocks_now)] = cursor.fetchall()
    if tuples > 0 and blocks_then > 0 and blocks_now > 0:
        return round(tuples * blocks_now / blocks_then)
    # A partitioned table has no blocks of its own.
    return tuples if tuples > 0 else None


def estimated_null_share(connection: extensions.connection, schema: str, table: str, columns: Sequence[str]) -> float:
    """Share of the rows, at least, in which one of these columns is null: as of the last ANALYZE, or 0. O(1)."""
    with connection.cursor() as cursor:
        cursor.execute(_NULLS, (schema, table, list(columns)))
        [(share,)] = cursor.fetchall()
    return float(share)


def row_count(connection: extensions.connection, schema: str, table: str) -> int:
    """Tuples: estimated where there is an estimate, else counted."""
    estimate = estimated_row_count(connection, schema, table)
    if estimate is not None:
        return estimate
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, table)))
        [(count,)] = cursor.fetchall()
    return count


def fits_into_memory(connection: extensions.connection, schema: str, table: str) -> bool:
    """Whether PostgreSQL's shared buffers could hold the table with its indexes. O(1)."""
    with connection.cursor() as cursor:
        cursor.execute(_FITS_INTO_MEMORY, (schema, table))
        [(fits,)] = cursor.fetchall()
    return fits
