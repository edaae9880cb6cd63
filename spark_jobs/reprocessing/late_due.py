"""Which late tuples of several streams can be joined after all; without what joins them, for those who only ask."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from psycopg2 import extensions

from spark_jobs.definition.fates import LATE
from spark_jobs.ledger.batch_streams import former_batch

_CONDITION = f"""
    pipeline = %(pipeline)s AND fate = '{LATE}' AND strpos(event_id, '/[') > 0
    AND event_time <= %(until)s
    AND (retry_at IS NULL OR retry_at <= clock_timestamp())
    AND batch_no <> ALL (SELECT batch_no FROM freshet.batch WHERE pipeline = %(pipeline)s AND state = 'started')
"""


class PutOff(NamedTuple):
    """Late tuples that could not be joined when that was tried, by this run or earlier ones.

    Attributes:
        tuples: how many.
        next_try: when the first of them is tried again; None: none is, any more.
    """

    tuples: int
    next_try: datetime | None

    @classmethod
    def of(cls, cursor: extensions.cursor, pipeline: str) -> PutOff:
        """Those of a pipeline. O(rejected tuples)."""
        cursor.execute(
            "SELECT count(*), min(retry_at) FILTER (WHERE retry_at < 'infinity') FROM freshet.held_tuple "
            "WHERE pipeline = %s AND fate = %s AND retry_at > clock_timestamp()",
            [pipeline, LATE.name],
        )
        [(tuples, next_try)] = cursor.fetchall()
        return cls(tuples, next_try and next_try.astimezone(UTC))

    def __str__(self) -> str:
        tried = (
            f"the first again {self.next_try:%Y-%m-%d %H:%M:%S} UTC" if self.next_try else "none again: too many tries"
        )
        return f"{self.tuples:,} late tuples could not be joined and are put off, {tried}"


class LateTuple(NamedTuple):
    """A late tuple.

    Attributes:
        event_time: when it happened.
        held_id: its event id, as it is held.
        record: its row, as `held_table` takes it.
    """

    event_time: datetime
    held_id: str
    record: tuple[Any, ...]


class LateDue(NamedTuple):
    """Late tuples that are due: not tried in vain a while ago, nor so young that the state may hold what they meet.

    What a tuple meets starts within a window's length of it, and has left the state a length after that.

    Attributes:
        pipeline: whose.
        until: when they happened, at the latest.
        longest: the length of the window.
    """

    pipeline: str
    until: datetime
    longest: timedelta

    @classmethod
    def of(cls, cursor: extensions.cursor, pipeline: str, window: timedelta | None) -> LateDue | None:
        """Those of a pipeline, by its shape's `late_window`; None where none is joined, or not yet."""
        if window is None:
            return None
        watermarks = [each.watermark for each in former_batch(cursor, pipeline).progress]
        if not watermarks or None in watermarks:
            return None
        return cls(pipeline, min(each for each in watermarks if each is not None) - 2 * window, window)

    def exist(self, cursor: extensions.cursor) -> bool:
        """Whether there are any. O(rejected tuples)."""
        cursor.execute(f"SELECT EXISTS (SELECT FROM freshet.held_tuple WHERE {_CONDITION})", self._arguments)
        return cursor.fetchone() == (True,)

    def read(self, cursor: extensions.cursor, most: int) -> list[LateTuple]:
        """The oldest."""
        cursor.execute(
            "SELECT event_time, event_id, payload, payload_encoding, arrived_at, source_unit, source_position "
            f"FROM freshet.held_tuple WHERE {_CONDITION} ORDER BY event_time LIMIT %(most)s",
            {**self._arguments, "most": most},
        )
        return [LateTuple(row[0], row[1], row[1:]) for row in cursor.fetchall()]

    @property
    def _arguments(self) -> dict[str, object]:
        return {"pipeline": self.pipeline, "until": self.until}
