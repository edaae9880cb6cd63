"""Whether a stream rejects what it reads: most tuples of the last minute became no facts, and not for want of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from psycopg2 import extensions

from spark_jobs.definition.fates import DUPLICATE, EXPIRED, REJECTED, SHED, named

LEAST_TUPLES = 20
"""Fewer tuples than these tell nothing of a stream."""
SHARE = 0.5
"""The share of them, rejected or unmatched, from which a stream counts as rejecting."""

_LOOKED_BACK = timedelta(minutes=1)
# Of how many of the newest held tuples the commonest reason is told: all of a minute may be hundreds of thousands.
_SAMPLED = 1000


class _Counted(NamedTuple):
    """What was counted of tuples that are judged together.

    Attributes:
        tuples: that found a place.
        failed: of them, those that are rejected or unmatched.
    """

    tuples: int
    failed: int

    @property
    def is_rejected(self) -> bool:
        """Whether they are enough to tell, and most of them failed."""
        return self.tuples >= LEAST_TUPLES and self.failed >= SHARE * self.tuples


def read_rejections(cursor: extensions.cursor, names: Sequence[str], now: datetime) -> dict[str, str]:
    """Why pipelines count as rejecting, by name; the others are not there.

    Of several streams each is judged by its own events, and what was joined by its facts. Events that have expired
    are no failure: how many find no partner is a matter of the events. O(batches of the last minute).

    Args:
        cursor: in a transaction.
        names: of the pipelines.
        now: by the warehouse's clock.
    """
    cursor.execute(
        """
        WITH recent AS (
            SELECT pipeline, batch_no, facts + shed AS stored, unmatched + rejected AS failed FROM freshet.batch
            WHERE pipeline = ANY (%(names)s) AND state = 'committed' AND closed_at > %(now)s::timestamptz - %(minute)s
        ), of_stream AS (
            SELECT pipeline, stream, sum(arrived) - coalesce(sum(known), 0) AS tuples, coalesce(sum(settled.failed), 0)
                AS failed, coalesce(sum(expired), 0) AS expired
            FROM recent JOIN freshet.batch_stream USING (batch_no) LEFT JOIN (
                SELECT batch_no, stream, sum(tuples) FILTER (WHERE fate = ANY (%(known)s)) AS known,
                    sum(tuples) FILTER (WHERE fate = ANY (%(failed)s)) AS failed,
                    sum(tuples) FILTER (WHERE fate = ANY (%(expired)s)) AS expired
                FROM recent JOIN freshet.batch_fate USING (batch_no) GROUP BY batch_no, stream
            ) AS settled USING (batch_no, stream)
            GROUP BY pipeline, stream
        ), as_whole AS (
            SELECT pipeline, min(batch_no) AS since, sum(stored) AS stored,
                greatest(sum(failed) - coalesce(
                    (SELECT sum(failed + expired) FROM of_stream WHERE of_stream.pipeline = recent.pipeline), 0), 0)
                    AS failed
            FROM recent GROUP BY pipeline
        )
        SELECT pipeline, since, (stored + as_whole.failed)::bigint, as_whole.failed::bigint,
            of_stream.tuples::bigint, of_stream.failed::bigint
        FROM as_whole LEFT JOIN of_stream USING (pipeline)
        """,
        {
            "names": list(names),
            "now": now,
            "minute": _LOOKED_BACK,
            "known": named(share=DUPLICATE.share),
            "failed": named(share=REJECTED.share),
            "expired": named(share=EXPIRED.share),
        },
    )
    worst: dict[str, tuple[_Counted, int]] = {}
    for pipeline, since, tuples, failed, of_stream, failed_of_stream in cursor.fetchall():
        for counted in (_Counted(tuples, failed), _Counted(of_stream or 0, failed_of_stream or 0)):
            if counted.is_rejected and (pipeline not in worst or counted.failed > worst[pipeline][0].failed):
                worst[pipeline] = counted, since
    return {pipeline: _told(cursor, pipeline, *found) for pipeline, found in worst.items()}


def _told(cursor: extensions.cursor, pipeline: str, counted: _Counted, since: int) -> str:
    reason = _commonest_reason(cursor, pipeline, since)
    return (
        f"{counted.failed:,} of {counted.tuples:,} tuples of the last minute are rejected or unmatched"
        f"{f'; most often: {reason}' if reason else ''}"
    )


def _commonest_reason(cursor: extensions.cursor, pipeline: str, since: int) -> str | None:
    """Of the newest held tuples; those whose reasons differ in numbers only count as one, and one of them is told."""
    cursor.execute(
        """
        SELECT min(reason) FROM (
            SELECT reason FROM freshet.held_tuple
            WHERE pipeline = %s AND batch_no >= %s AND place <> %s
            ORDER BY batch_no DESC LIMIT %s) AS newest
        GROUP BY regexp_replace(reason, '[0-9]+', '…', 'g') ORDER BY count(*) DESC, 1 LIMIT 1
        """,
        [pipeline, since, SHED.place, _SAMPLED],
    )
    row = cursor.fetchone()
    return None if row is None else str(row[0])
