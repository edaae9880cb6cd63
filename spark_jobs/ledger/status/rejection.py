"""Whether a stream rejects what it reads: most tuples of the window became no facts, and not for want of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from psycopg2 import extensions

from spark_jobs.ledger.status.ledger_reading import ClosedBatch

LEAST_TUPLES = 20
"""Fewer tuples than these tell nothing of a stream."""
SHARE = 0.5
"""The share of them, rejected or unmatched, from which a stream counts as rejecting."""

# Of how many of the newest held tuples the commonest reason is told: all of a minute may be hundreds of thousands.
_SAMPLED = 1000


class _Part(NamedTuple):
    """Tuples of the window that are judged together.

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


class _OfStreams(NamedTuple):
    """What the streams of one pipeline did before they were joined, in the window.

    Attributes:
        parts: of each stream, the events that were read, and those that can't be joined.
        held: events of all streams that are held without having been joined. Those that expired are among them.
    """

    parts: Sequence[_Part]
    held: int


def rejection(cursor: extensions.cursor, pipeline: str, recent: Sequence[ClosedBatch], window: timedelta) -> str | None:
    """Why a stream counts as rejecting; None: it does not.

    Of several streams each is judged by its own events, and what was joined by its facts. Events that have expired
    are no failure: how many find no partner is a matter of the events.

    Args:
        cursor: in a transaction.
        pipeline: its name.
        recent: the closed batches of the window, oldest first.
        window: its length.
    """
    failed = sum(batch.unmatched + batch.rejected for batch in recent)
    if failed < SHARE * LEAST_TUPLES:
        return None
    since = recent[0].batch_no
    of_streams = _of_streams(cursor, pipeline, since)
    failed_as_whole = max(failed - of_streams.held, 0)
    settled = sum(batch.facts + batch.shed for batch in recent) + failed_as_whole
    rejecting = [part for part in (_Part(settled, failed_as_whole), *of_streams.parts) if part.is_rejected]
    if not rejecting:
        return None
    worst = max(rejecting, key=lambda part: part.failed)
    told = f"{worst.failed:,} of {worst.tuples:,} tuples of the last {window.total_seconds():.0f} s"
    reason = _commonest_reason(cursor, pipeline, since)
    return f"{told} are rejected or unmatched" + (f"; most often: {reason}" if reason else "")


def _of_streams(cursor: extensions.cursor, pipeline: str, since: int) -> _OfStreams:
    cursor.execute(
        """
        SELECT sum(read.arrived - read.duplicates)::bigint, sum(read.rejected + late + after_last)::bigint,
            sum(expired)::bigint
        FROM freshet.batch_stream AS read JOIN freshet.batch USING (batch_no)
        WHERE pipeline = %s AND batch_no >= %s AND state = 'committed' GROUP BY stream
        """,
        [pipeline, since],
    )
    rows = cursor.fetchall()
    return _OfStreams([_Part(read, failed) for read, failed, _ in rows], sum(row[1] + row[2] for row in rows))


def _commonest_reason(cursor: extensions.cursor, pipeline: str, since: int) -> str | None:
    """Of the newest held tuples; those whose reasons differ in numbers only count as one, and one of them is told."""
    cursor.execute(
        """
        SELECT min(reason) FROM (
            SELECT reason FROM freshet.held_tuple
            WHERE pipeline = %s AND batch_no >= %s AND place IN ('rejected', 'unmatched')
            ORDER BY batch_no DESC LIMIT %s) AS newest
        GROUP BY regexp_replace(reason, '[0-9]+', '…', 'g') ORDER BY count(*) DESC, 1 LIMIT 1
        """,
        [pipeline, since, _SAMPLED],
    )
    row = cursor.fetchone()
    return None if row is None else str(row[0])
