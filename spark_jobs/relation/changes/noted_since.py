"""Whether the changes of a relation have been noted, without a gap, since a snapshot was taken."""

from __future__ import annotations

from psycopg2 import extensions

from spark_jobs.relation.changes.watched_tables import FUNCTION, OPERATIONS, trigger_name, watched_tables

# The transaction that made or changed a trigger was over when the snapshot was taken. A trigger's xmin lacks the upper
# half of its number: being visible, it is the largest below the number that comes next.
_TRIGGERS_BEFORE = """
    WITH next AS (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::numeric AS xid),
    trigger AS (
        SELECT trunc(next.xid / 4294967296) * 4294967296 + t.xmin::text::numeric AS xid
        FROM next, pg_trigger AS t
            JOIN pg_class AS c ON c.oid = t.tgrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = %(schema)s AND c.relname = %(table)s AND t.tgfoid = %(function)s::regproc
    )
    SELECT coalesce(bool_and(pg_visible_in_snapshot(
        (CASE WHEN trigger.xid < next.xid THEN trigger.xid ELSE trigger.xid - 4294967296 END)::text::xid8,
        %(noticed)s::pg_snapshot
    )), false) FROM trigger, next
"""


def noted_since(connection: extensions.connection, relation: str, noticed: str) -> bool:
    """Whether triggers on all tables of a relation have noted every change by transactions that a snapshot does not
    see: they were there, as they are now, when it was taken.

    Args:
        connection: to the warehouse.
        relation: schema.table.
        noticed: pg_snapshot as text.
    """
    needed = {trigger_name(operation) for operation in OPERATIONS}
    with connection.cursor() as cursor:
        tables = watched_tables(cursor, relation)
        for table in tables:
            if table.refusal is not None or not needed <= table.triggers.keys():
                return False
            names = {"schema": table.schema, "table": table.table, "function": FUNCTION, "noticed": noticed}
            cursor.execute(_TRIGGERS_BEFORE, names)
            [(before,)] = cursor.fetchall()
            if not before:
                return False
    return bool(tables)
