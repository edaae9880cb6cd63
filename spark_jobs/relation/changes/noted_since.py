"""Whether the changes of a relation have been noted, without a gap, since a snapshot was taken."""

from __future__ import annotations

from psycopg2 import extensions

from spark_jobs.relation.changes.watched_tables import FUNCTION, OPERATIONS, trigger_name, watched_tables

# The transactions that made or changed triggers and columns, or attached partitions, were over when the snapshot was
# taken. An xmin lacks the upper half of its number: being visible, it is the largest below the number that comes next.
_DEFINED_BEFORE = """
    WITH next AS (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::numeric AS xid),
    watched AS (
        SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = %(schema)s AND c.relname = %(table)s
    ), defined (xmin) AS (
        SELECT t.xmin FROM pg_trigger AS t JOIN watched ON t.tgrelid = watched.oid
        WHERE t.tgfoid = %(function)s::regproc
        UNION ALL SELECT a.xmin FROM pg_attribute AS a JOIN watched ON a.attrelid = watched.oid WHERE a.attnum > 0
        UNION ALL SELECT i.xmin FROM pg_inherits AS i JOIN watched ON i.inhrelid = watched.oid
    ), written AS (
        SELECT trunc(next.xid / 4294967296) * 4294967296 + defined.xmin::text::numeric AS xid FROM next, defined
    )
    SELECT coalesce(bool_and(pg_visible_in_snapshot(
        (CASE WHEN written.xid < next.xid THEN written.xid ELSE written.xid - 4294967296 END)::text::xid8,
        %(noticed)s::pg_snapshot
    )), false) FROM written, next
"""


def noted_since(connection: extensions.connection, relation: str, noticed: str) -> bool:
    """Whether triggers on all tables of a relation have noted every change by transactions that a snapshot does not
    see: they were there, as they and the tables are now, when it was taken.

    Args:
        connection: to the warehouse.
        relation: schema.table.
        noticed: pg_snapshot as text.
    """
    needed = {trigger_name(operation) for operation in OPERATIONS}
    with connection.cursor() as cursor:
        tables = watched_tables(cursor, [relation])[relation]
        for table in tables:
            if table.refusal is not None or table.not_always or not needed <= table.triggers.keys():
                return False
            names = {"schema": table.schema, "table": table.table, "function": FUNCTION, "noticed": noticed}
            cursor.execute(_DEFINED_BEFORE, names)
            [(before,)] = cursor.fetchall()
            if not before:
                return False
    return bool(tables)
