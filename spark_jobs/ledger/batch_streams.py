"""What a batch says of each of several streams: how far it has come, and what became of its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from psycopg2 import extensions

from spark_jobs.definition.fates import DUPLICATE, WAITING, Fate


class StreamProgress(NamedTuple):
    """How far a stream has come.

    Attributes:
        stream: its name.
        watermark: events that happened before are late; None: none is.
        newest: the largest event time so far, but none in the future; None before there is any.
        last_arrival: when an event of it was read last; None before.
        idle: whether it is silent, and has followed the others.
        furthest: the largest event time so far, in the future or not.
    """

    stream: str
    watermark: datetime | None = None
    newest: datetime | None = None
    last_arrival: datetime | None = None
    idle: bool = False
    furthest: datetime | None = None


@dataclass(frozen=True)
class StreamTally:
    """What became of a stream's events in a batch.

    Attributes:
        progress: how far the stream has come with it.
        arrived: records that were read.
        fates: how many events came to which fate; `waiting` those that wait after the batch.
    """

    progress: StreamProgress
    arrived: int = 0
    fates: Mapping[Fate, int] = field(default_factory=dict)

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self.progress.stream

    @property
    def duplicates(self) -> int:
        """Events that were known already."""
        return self.fates.get(DUPLICATE, 0)

    @property
    def placed(self) -> int:
        """Events that found a place, or wait after the batch."""
        return sum(number for fate, number in self.fates.items() if fate.share) - self.duplicates


class FormerBatch(NamedTuple):
    """The last committed batch of several streams: what its successor starts from.

    Attributes:
        batch_no: its number, which is the version of the state; 0: there is none.
        progress: how far each stream had come after it.
        waiting_of: stream -> events of it in the state, in no result yet.
    """

    batch_no: int
    progress: tuple[StreamProgress, ...]
    waiting_of: Mapping[str, int]

    @property
    def waiting(self) -> int:
        """Events of all streams in the state, in no result yet."""
        return sum(self.waiting_of.values())


def open_streams(cursor: extensions.cursor, batch_no: int, progress: Sequence[StreamProgress]) -> None:
    """Note how far the streams have come; in the transaction that opens the batch."""
    for stream in progress:
        cursor.execute(
            "INSERT INTO freshet.batch_stream (batch_no, stream, reached, newest, last_arrival, idle, furthest) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s)",
            [batch_no, *stream],
        )


def opened_streams(cursor: extensions.cursor, batch_no: int) -> tuple[StreamProgress, ...]:
    """What was noted when a batch was opened; nothing where it is one of a single stream."""
    cursor.execute(
        "SELECT stream, reached, newest, last_arrival, idle, furthest FROM freshet.batch_stream WHERE batch_no = %s",
        [batch_no],
    )
    return tuple(StreamProgress(*row) for row in cursor.fetchall())


def former_batch(cursor: extensions.cursor, pipeline: str, before: int | None = None) -> FormerBatch:
    """The last committed batch of a pipeline.

    Args:
        cursor: in a transaction.
        pipeline: its name.
        before: number of a batch: that before this one; None: the last of all.
    """
    cursor.execute(
        "SELECT batch_no FROM freshet.batch WHERE pipeline = %s AND state = 'committed' AND batch_no < %s "
        "ORDER BY batch_no DESC LIMIT 1",
        [pipeline, (1 << 63) - 1 if before is None else before],
    )
    row = cursor.fetchone()
    if row is None:
        return FormerBatch(0, (), {})
    progress = opened_streams(cursor, row[0])
    return FormerBatch(row[0], progress, _waiting(cursor, row[0]))


def batches_since(
    cursor: extensions.cursor, pipeline: str, newest: datetime | None, *, deleted: bool = False
) -> list[int]:
    """Numbers of the committed batches, in their order, from the first that may have brought an event after a time.

    Args:
        cursor: in a transaction.
        pipeline: its name.
        newest: the time; None: all batches.
        deleted: those before the first in the ledger, too, of which retention has left nothing but their ranges, where
            that one is among them: nobody knows any more how far the streams had come.
    """
    cursor.execute(
        """
        WITH first AS (
            SELECT min(batch_no) AS batch_no FROM freshet.batch JOIN freshet.batch_stream USING (batch_no)
            WHERE pipeline = %(pipeline)s AND state = 'committed'
                AND coalesce(furthest, newest) >= coalesce(%(newest)s::timestamptz, '-infinity')
        )
        SELECT batch_no FROM freshet.batch
        WHERE pipeline = %(pipeline)s AND state = 'committed' AND batch_no >= (SELECT batch_no FROM first)
        UNION
        SELECT batch_no FROM freshet.source_range AS range
        WHERE %(deleted)s AND pipeline = %(pipeline)s AND state = 'loaded' AND batch_no IS NOT NULL
            AND NOT EXISTS (SELECT FROM freshet.batch WHERE batch.batch_no = range.batch_no)
            AND NOT EXISTS (SELECT FROM freshet.batch JOIN first ON batch.batch_no < first.batch_no
                            WHERE pipeline = %(pipeline)s AND state = 'committed')
        ORDER BY batch_no
        """,
        {"pipeline": pipeline, "newest": newest, "deleted": deleted},
    )
    return [batch_no for (batch_no,) in cursor.fetchall()]


def closed_before(cursor: extensions.cursor, pipeline: str, seconds: float) -> int:
    """Number of the last batch that was committed this long ago, or longer; 0: there is none."""
    cursor.execute(
        "SELECT batch_no FROM freshet.batch WHERE pipeline = %s AND state = 'committed' "
        "AND closed_at < clock_timestamp() - %s * interval '1 second' ORDER BY batch_no DESC LIMIT 1",
        [pipeline, seconds],
    )
    row = cursor.fetchone()
    return 0 if row is None else int(row[0])


def close_streams(cursor: extensions.cursor, pipeline: str, batch_no: int, tallies: Sequence[StreamTally]) -> int:
    """Note what became of the streams' events; in the transaction that closes the batch.

    Returns:
        how many found a place: those that wait in the state now, and did not before, among them.
    """
    before = former_batch(cursor, pipeline, batch_no).waiting
    for tally in tallies:
        now = tally.progress
        cursor.execute(
            "UPDATE freshet.batch_stream SET (newest, furthest, last_arrival, arrived) = ROW (%s, %s, %s, %s) "
            "WHERE batch_no = %s AND stream = %s",
            [now.newest, now.furthest, now.last_arrival, tally.arrived, batch_no, now.stream],
        )
        found = {fate.name: number for fate, number in tally.fates.items() if number}
        cursor.execute(
            "INSERT INTO freshet.batch_fate (batch_no, stream, fate, tuples) "
            "SELECT %s, %s, fate, tuples FROM unnest(%s::text[], %s::bigint[]) AS found (fate, tuples)",
            [batch_no, tally.stream, list(found), list(found.values())],
        )
    return sum(tally.placed for tally in tallies) - before


def _waiting(cursor: extensions.cursor, batch_no: int) -> dict[str, int]:
    cursor.execute(
        "SELECT stream, coalesce(tuples, 0)::bigint FROM freshet.batch_stream AS told "
        "LEFT JOIN (SELECT * FROM freshet.batch_fate WHERE fate = %s) AS waiting USING (batch_no, stream) "
        "WHERE told.batch_no = %s",
        [WAITING.name, batch_no],
    )
    return dict(cursor.fetchall())
