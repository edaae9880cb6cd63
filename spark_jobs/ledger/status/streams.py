"""The streams of a pipeline that joins several: how far each has come, and what its events wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg2 import extensions

from spark_jobs.definition.fates import (
    AFTER_LAST,
    EXPIRED,
    JOINED,
    LATE,
    PUNCTUATION,
    PURGED,
    REJECTED,
    WAITING,
    listed,
    named,
)

_HOUR = timedelta(hours=1)
# What is shown of the last hour, in the order of `StreamStatus`: figure -> the fates that it adds up.
_APART = (LATE.name, AFTER_LAST.name)
_COUNTED = {
    "joined": named(share=JOINED.share),
    "expired": named(share=EXPIRED.share),
    "late": [LATE.name],
    REJECTED.name: [name for name in named(share=REJECTED.share) if name not in _APART],
    "after_last": [AFTER_LAST.name],
    "punctuations": [PUNCTUATION.name],
    "purged": [PURGED.name],
}


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
    counted = ", ".join(
        f"sum(tuples) FILTER (WHERE fate IN ({listed(fates)})) AS {name}" for name, fates in _COUNTED.items()
    )
    shown = ", ".join(f"coalesce({name}, 0)::bigint" for name in _COUNTED)
    cursor.execute(
        f"""
        WITH recent AS (
            SELECT batch_no, pipeline, closed_at FROM freshet.batch
            WHERE pipeline = ANY (%(names)s) AND state = 'committed' AND closed_at > %(now)s::timestamptz - %(hour)s
        ), newest AS (
            SELECT (SELECT max(batch_no) FROM freshet.batch WHERE pipeline = name AND state = 'committed') AS batch_no,
                name AS pipeline
            FROM unnest(%(names)s::text[]) AS name
        ), read AS (
            SELECT pipeline, stream, sum(arrived) AS arrived
            FROM freshet.batch_stream JOIN recent USING (batch_no) GROUP BY pipeline, stream
        ), counted AS (
            SELECT pipeline, stream, {counted}
            FROM freshet.batch_fate JOIN recent USING (batch_no) GROUP BY pipeline, stream
        ), level_of AS (
            SELECT batch_no, stream, tuples AS waiting FROM newest JOIN freshet.batch_fate USING (batch_no)
            WHERE fate = %(waiting)s
        )
        SELECT pipeline, stream, newest, reached, last_arrival, idle,
            coalesce(reached = min(reached) OVER of_pipeline AND reached < max(reached) OVER of_pipeline, false),
            coalesce(waiting, 0), coalesce(read.arrived, 0)::bigint, {shown}
        FROM newest JOIN freshet.batch_stream AS level USING (batch_no) LEFT JOIN level_of USING (batch_no, stream)
            LEFT JOIN read USING (pipeline, stream) LEFT JOIN counted USING (pipeline, stream)
        WINDOW of_pipeline AS (PARTITION BY pipeline) ORDER BY pipeline, stream
        """,
        {"names": list(names), "now": now, "hour": _HOUR, "waiting": WAITING.name},
    )
    found: dict[str, tuple[StreamStatus, ...]] = {}
    for pipeline, *columns in cursor.fetchall():
        found[pipeline] = (*found.get(pipeline, ()), StreamStatus(*columns))
    return found
