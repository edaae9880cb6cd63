"""Of accumulating facts: the share that has a part of each stream, by the ledger."""

from __future__ import annotations

from psycopg2 import extensions

from spark_jobs.definition.fates import JOINED
from spark_jobs.ledger.stored_shape import ACCUMULATES


def read_filled(connection: extensions.connection, pipeline: str) -> dict[str, float] | None:
    """Stream -> share of all facts in which a part of it has come; None of a pipeline that does not accumulate.

    A row is counted once, by the transaction that made it, and each part once, when it came into its row. Facts that
    others have deleted count still. O(batches that the ledger keeps).
    """
    with connection, connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH made AS (
                SELECT coalesce(sum(facts), 0) AS rows FROM (
                    SELECT facts FROM freshet.batch WHERE pipeline = %(pipeline)s AND state = 'committed'
                    UNION ALL SELECT facts FROM freshet.ledger_pruned WHERE pipeline = %(pipeline)s) AS loaded
            ), parts AS (
                SELECT stream, tuples FROM freshet.batch_fate JOIN freshet.batch USING (batch_no)
                WHERE pipeline = %(pipeline)s AND state = 'committed' AND fate = %(joined)s
                UNION ALL
                SELECT stream, tuples FROM freshet.fate_pruned WHERE pipeline = %(pipeline)s AND fate = %(joined)s
            )
            SELECT stream, (sum(tuples) / nullif(rows, 0))::float8 FROM parts, made, freshet.pipeline
            WHERE name = %(pipeline)s AND {ACCUMULATES}
            GROUP BY stream, rows ORDER BY stream
            """,
            {"pipeline": pipeline, "joined": JOINED.name},
        )
        filled = {stream: share for stream, share in cursor.fetchall() if share is not None}
    return filled or None
