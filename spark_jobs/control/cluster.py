"""A warehouse that was moved to another cluster, with pg_dump: numbers of transactions mean nothing there."""

from __future__ import annotations

import logging

from psycopg2 import extensions

_log = logging.getLogger(__name__)

_IS_ANOTHER = """
    SELECT here.system_identifier FROM pg_control_system() AS here
    WHERE NOT EXISTS (SELECT FROM freshet.cluster WHERE cluster.system_identifier = here.system_identifier)
"""
# PostgreSQL's number for what all can see. The former one still tells what was changed by one transaction.
_RESET = """
    UPDATE freshet.relation_change SET former_xid = xid, xid = '2' WHERE xid <> '2';
    UPDATE freshet.held_tuple SET tried_xmin = '2' WHERE tried_xmin IS NOT NULL;
    UPDATE freshet.cache SET noticed = pg_current_snapshot() WHERE noticed IS NOT NULL
"""


def settle_in_cluster(connection: extensions.connection) -> None:
    """Where this cluster is not the one in which transactions were numbered, take all of them for past; once.

    Readers of master data begin anew there: their files belong to one cluster. Unmatched tuples get a try.

    Args:
        connection: of a loader, not in a transaction; this is one. A single query where nothing is to be done.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute(_IS_ANOTHER)
        if not cursor.rowcount:
            return
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('freshet.cluster'))")
        cursor.execute(_IS_ANOTHER)  # somebody else may have been quicker
        for (identifier,) in cursor.fetchall():
            _log.warning("the warehouse was moved to another cluster: its changes of master data count as past")
            cursor.execute(_RESET)
            cursor.execute(
                "INSERT INTO freshet.cluster (system_identifier) VALUES (%s) "
                "ON CONFLICT (is_only) DO UPDATE SET system_identifier = excluded.system_identifier",
                [identifier],
            )
