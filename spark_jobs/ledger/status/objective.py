"""The share of events that became facts within the target, over a day and a month: what one can promise."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from psycopg2 import extensions

from spark_jobs.ledger.latency import buckets_within

DAY, MONTH = timedelta(days=1), timedelta(days=30)


@dataclass(frozen=True)
class Kept:
    """How often the target was kept.

    Attributes:
        events: those that were loaded or shed; of accumulating facts each part counts, as it has its own time. Shed
            ones are late, whenever they are reprocessed; unmatched and rejected ones wait for others than the stream,
            and do not count.
        in_time: those of them that were committed within the target; right to within a few of those close to it.
    """

    events: int
    in_time: int


@dataclass(frozen=True)
class Objective:
    """How often a pipeline's target was kept, over the day and the 30 days that end now.

    Attributes:
        target_ms: the target of now, by which all of that time is judged.
        day, month: each.
    """

    target_ms: float
    day: Kept
    month: Kept


def read_objective(connection: extensions.connection, pipeline: str) -> Objective | None:
    """How often the target was kept; None of a pipeline that is not registered.

    Reads the ledger's minutes: one to two seconds for a month without a gap, which PostgreSQL spends.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT freshness_target FROM freshet.pipeline WHERE name = %s", [pipeline])
        rows = cursor.fetchall()
        if not rows:
            return None
        target: timedelta = rows[0][0]
        bucket, share = buckets_within(target.total_seconds())
        cursor.execute(
            """
            SELECT minute >= clock_timestamp() - %(day)s,
                sum(shed + (SELECT coalesce(sum(count), 0) FROM unnest(event_latency) AS count)),
                sum((SELECT sum(count) FROM unnest(event_latency[1:%(bucket)s]) AS count)), sum(event_latency[%(next)s])
            FROM freshet.ledger_minute
            WHERE pipeline = %(pipeline)s AND minute >= clock_timestamp() - %(month)s GROUP BY 1
            """,
            {"pipeline": pipeline, "bucket": bucket, "next": bucket + 1, "day": DAY, "month": MONTH},
        )
        parts = {
            bool(is_day): Kept(int(events), int(float(below or 0) + share * float(close or 0)))
            for is_day, events, below, close in cursor.fetchall()
        }
    day, before = parts.get(True, Kept(0, 0)), parts.get(False, Kept(0, 0))
    month = Kept(day.events + before.events, day.in_time + before.in_time)
    return Objective(target / timedelta(milliseconds=1), day, month)
