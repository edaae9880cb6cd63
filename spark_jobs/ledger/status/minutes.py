"""Freshness over the last hour and the last day, from the ledger's sums by minute."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
from psycopg2 import extensions

from spark_jobs.warehouse.latency import BUCKETS, Int64Array, from_text

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


class HourAndDay(NamedTuple):
    """Histograms of event time to commit, int64, shape (BUCKETS,)."""

    hour: Int64Array
    day: Int64Array


class SlidingHistogram:
    """Sum of the histograms of the last while; what is too old leaves it a step at a time.

    Args:
        span: how long that is.
        step: histograms of one step are kept as one.
    """

    def __init__(self, span: timedelta, step: timedelta) -> None:
        self.sum: Int64Array = np.zeros(BUCKETS, np.int64)
        self._span, self._step = span, step
        self._steps: deque[tuple[datetime, Int64Array]] = deque()

    def add(self, at: datetime, histogram: Int64Array) -> None:
        """Add one that belongs to this time, which is no earlier than that of the one before."""
        if not self._steps or at >= self._steps[-1][0] + self._step:
            self._steps.append((at, histogram.copy()))
        else:
            self._steps[-1][1].__iadd__(histogram)
        self.sum += histogram

    def advance(self, now: datetime) -> None:
        """Let go of the steps that began before the span that ends now."""
        while self._steps and self._steps[0][0] < now - self._span:
            self.sum -= self._steps.popleft()[1]


class _Minutes:
    """The minutes of one pipeline that are over, and the last one, which may still grow."""

    def __init__(self) -> None:
        self.hour = SlidingHistogram(HOUR, timedelta(minutes=1))
        self.day = SlidingHistogram(DAY, timedelta(minutes=10))
        self.last: datetime | None = None
        self.growing: Int64Array = np.zeros(BUCKETS, np.int64)

    def take(self, minute: datetime, histogram: Int64Array) -> None:
        """Take a minute's sums, those of a later one or the grown ones of the last one."""
        if self.last is not None and minute > self.last:
            self.hour.add(self.last, self.growing)
            self.day.add(self.last, self.growing)
        self.last, self.growing = minute, histogram

    def at(self, now: datetime) -> HourAndDay:
        """The sums of the hour and the day that end now."""
        self.hour.advance(now)
        self.day.advance(now)
        sums = []
        for sliding, span in ((self.hour, HOUR), (self.day, DAY)):
            grows = self.last is not None and self.last >= now - span
            sums.append(sliding.sum + self.growing if grows else sliding.sum.copy())
        return HourAndDay(*sums)


class MinutesReader:
    """Reads the last day of each pipeline once, and then the last minute only."""

    def __init__(self) -> None:
        self._minutes: dict[str, _Minutes] = {}

    def read(self, cursor: extensions.cursor, pipelines: Sequence[str], now: datetime) -> dict[str, HourAndDay]:
        """Freshness over the hour and the day that end now, of each of these pipelines."""
        known = [self._minutes.setdefault(pipeline, _Minutes()) for pipeline in pipelines]
        cursor.execute(
            """
            SELECT minutes.* FROM unnest(%s::text[], %s::timestamptz[]) AS known (pipeline, since)
            CROSS JOIN LATERAL (
                SELECT pipeline, minute, array_to_string(event_latency, ' ') FROM freshet.ledger_minute
                WHERE pipeline = known.pipeline AND minute >= known.since ORDER BY minute) AS minutes
            """,
            [list(pipelines), [minutes.last or now - DAY for minutes in known]],
        )
        for pipeline, minute, counts in cursor:
            self._minutes[pipeline].take(minute, from_text(counts))
        return {pipeline: self._minutes[pipeline].at(now) for pipeline in pipelines}
