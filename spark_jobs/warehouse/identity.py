"""Which warehouse it is: what files belong to one by."""

from __future__ import annotations

from typing import Any

from psycopg2 import extensions

# Numbers of transactions and of batches mean nothing in another cluster, nor on another timeline.
_WAREHOUSE = """
    SELECT system_identifier, timeline_id, (SELECT oid FROM pg_database WHERE datname = current_database())
    FROM pg_control_system(), pg_control_checkpoint()
"""


def warehouse_identity(connection: extensions.connection) -> tuple[Any, ...]:
    """The cluster's identifier, its timeline, and the database in it; in the connection's transaction."""
    with connection.cursor() as cursor:
        cursor.execute(_WAREHOUSE)
        [identity] = cursor.fetchall()
    return tuple(identity)
