"""The streams of a pipeline that joins several: how far each has come, and what its events wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg2 import extensions

_HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class StreamStatus:
    """One of several streams.

    Attributes:
        stream: its name.
        newest: the largest event time so far.
        reached: events that happened before are late.
        last_arrival: when an event of it was read last.
        idle: whether it is silent, and follows the others.
        holds_back: whether the others wait for it: none has reached less.
        waiting: events that are in no result yet.
        arrived, joined, expired, late, rejected: events of the last hour.
        after_last: events of the last hour that came after their stream's punctuation of their key.
        punctuations: of the last hour.
        purged: events that left the state by the other streams' punctuations in the last hour.
    """

    stream: str
    newest: datetime | None
    reached: datetime | None
    last_arrival: datetime | None
    idle: bool
    holds_back: bool
    waiting: int
    arrived: int
    joined: int
    expired: int
    late: int
    rejected: int
    after_last: int
    punctuations: int
    purged: int


def read_streams(cursor: extensions.cursor, names: Sequence[str], now: datetime) -> dict[str, tuple[StreamStatus, ...]]:
    """The streams of each pipeline that has several, by name. O(batches of the last hour)."""
    cursor.execute(
        """
        WITH recent AS (
            SELECT batch_no, pipeline, closed_at FROM freshet.batch
            WHERE pipeline = ANY (%(names)s) AND state = 'committed' AND closed_at > %(now)s::timestamptz - %(hour)s
        ), newest AS (
            SELECT (SELECT max(batch_no) FROM freshet.batch WHERE pipeline = name AND state = 'committed') AS batch_no,
                name AS pipeline
            FROM unnest(%(names)s::text[]) AS name
        ), counted AS (
            SELECT pipeline, stream, sum(arrived) AS arrived, sum(joined) AS joined, sum(expired) AS expired,
                sum(late) AS late, sum(rejected) AS rejected, sum(after_last) AS after_last,
                sum(punctuations) AS punctuations, sum(purged) AS purged
            FROM freshet.batch_stream JOIN recent USING (batch_no) GROUP BY pipeline, stream
        )
        SELECT pipeline, stream, newest, reached, last_arrival, idle,
            coalesce(reached = min(reached) OVER of_pipeline AND reached < max(reached) OVER of_pipeline, false),
            waiting, coalesce(counted.arrived, 0)::bigint, coalesce(counted.joined, 0)::bigint,
            coalesce(counted.expired, 0)::bigint, coalesce(counted.late, 0)::bigint,
            coalesce(counted.rejected, 0)::bigint, coalesce(counted.after_last, 0)::bigint,
            coalesce(counted.punctuations, 0)::bigint, coalesce(counted.purged, 0)::bigint
        FROM newest JOIN freshet.batch_stream AS level USING (batch_no) LEFT JOIN counted USING (pipeline, stream)
        WINDOW of_pipeline AS (PARTITION BY pipeline) ORDER BY pipeline, stream
        """,
        {"names": list(names), "now": now, "hour": _HOUR},
    )
    found: dict[str, tuple[StreamStatus, ...]] = {}
    for pipeline, *columns in cursor.fetchall():
        found[pipeline] = (*found.get(pipeline, ()), StreamStatus(*columns))
    return found
