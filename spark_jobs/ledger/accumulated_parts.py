"""What the transactions of a batch did with the parts of accumulating facts, stream by stream."""

from __future__ import annotations

from typing import NamedTuple

from psycopg2 import extensions

from spark_jobs.definition.fates import EXPIRED, WAITING
from spark_jobs.ledger.stored_shape import ACCUMULATES

KEEP_FROM_CLOSING = f"""
    SELECT FROM freshet.pipeline
    WHERE name = %(pipeline)s AND {ACCUMULATES} FOR UPDATE;
"""
"""To run before `END_WAITING`, as a statement of its own: a batch that is closed meanwhile would not see the change."""
END_WAITING = f"""
    INSERT INTO freshet.batch_fate AS told (batch_no, stream, fate, tuples)
    SELECT last.batch_no, stream, change.fate, change.sign * gone.count
    FROM (
        SELECT split_part(event_id, '/', 1) AS stream, count(*) AS count FROM {{deleted}}
        WHERE correlation_key IS NOT NULL AND fate = '{WAITING}' GROUP BY 1
    ) AS gone, (VALUES ('{WAITING}', -1), ('{EXPIRED}', 1)) AS change (fate, sign),
        (SELECT max(batch_no) AS batch_no FROM freshet.batch WHERE pipeline = %(pipeline)s AND state = 'committed')
            AS last
    WHERE last.batch_no IS NOT NULL
    ON CONFLICT (batch_no, stream, fate) DO UPDATE SET tuples = told.tuples + excluded.tuples
"""
"""Deleted parts of accumulating facts wait no longer: they have expired. `deleted` names what was deleted."""


class PartSums(NamedTuple):
    """What became of a stream's parts.

    Attributes:
        joined: parts that came into a fact.
        rejected: parts that are rejected now, and were not before.
        more_waiting: parts that wait for their row now, less those that did before.
        waited: parts that waited before.
    """

    joined: int = 0
    rejected: int = 0
    more_waiting: int = 0
    waited: int = 0

    @property
    def waiting(self) -> int:
        """Parts that wait after the batch."""
        return self.waited + self.more_waiting

    @property
    def placed(self) -> int:
        """Parts of the batch that are not duplicates."""
        return self.joined + self.rejected + self.more_waiting


def part_sums(cursor: extensions.cursor, batch_no: int, former: int) -> dict[str, PartSums]:
    """Sums over the batch's transactions, by stream.

    Args:
        cursor: in the transaction that closes the batch, whose parts it has still.
        batch_no: the batch.
        former: number of the last committed batch before it; 0: there is none.
    """
    cursor.execute(
        """
        SELECT stream, coalesce(sum(joined), 0)::bigint, coalesce(sum(rejected), 0)::bigint,
            coalesce(sum(held), 0)::bigint, coalesce(sum(waited), 0)::bigint
        FROM (
            SELECT stream, joined, rejected, shed + unmatched AS held, 0 AS waited
            FROM freshet.batch_part WHERE batch_no = %s
            UNION ALL
            SELECT stream, 0, 0, 0, tuples FROM freshet.batch_fate WHERE batch_no = %s AND fate = %s
        ) AS changes
        GROUP BY stream
        """,
        [batch_no, former, WAITING.name],
    )
    return {stream: PartSums(*sums) for stream, *sums in cursor.fetchall()}
