"""How a pipeline did over time: freshness over an hour and a day; rates and ratios in steps, for charts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

import numpy as np
from psycopg2 import extensions

from spark_jobs.definition.fates import PLACES
from spark_jobs.ledger.latency import BUCKETS, Int64Array, from_text, percentile
from spark_jobs.ledger.sums import HITS, PROBES

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
HistorySpan = Literal["15m", "1h", "1d"]
Numbers = list[float | None]
# HistorySpan -> its length and its steps', in seconds.
_LENGTHS: dict[HistorySpan, tuple[int, int]] = {"15m": (900, 5), "1h": (3600, 60), "1d": (86_400, 300)}
_COUNTS = ("facts", *PLACES, "probes", "hits")
# The newest step is still filling. A rate over less than this share of it would say more about when batches end.
_LEAST_SHARE = 0.2
_BATCHES = f"""
    SELECT closed_at, facts, shed, unmatched, rejected, {PROBES},
        {HITS}, array_to_string(event_latency, ' ')
    FROM freshet.batch
    WHERE pipeline = %(pipeline)s AND state <> 'started' AND closed_at >= %(since)s AND batch_no > coalesce((
        SELECT batch_no FROM freshet.batch WHERE pipeline = %(pipeline)s AND closed_at < %(since)s
        ORDER BY batch_no DESC LIMIT 1), 0)
"""
_MINUTES = """
    SELECT minute, facts, shed, unmatched, rejected, probes, hits, array_to_string(event_latency, ' ')
    FROM freshet.ledger_minute WHERE pipeline = %(pipeline)s AND minute >= %(since)s
"""


class HourAndDay(NamedTuple):
    """Histograms of event time to commit, int64, shape (BUCKETS,)."""

    hour: Int64Array
    day: Int64Array


class _SlidingHistogram:
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
        self.hour = _SlidingHistogram(HOUR, timedelta(minutes=1))
        self.day = _SlidingHistogram(DAY, timedelta(minutes=10))
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


@dataclass(frozen=True)
class Distribution:
    """Freshness of all facts of a span, in milliseconds; None where there are none. A day stands for all beyond.

    `events` tells of how many: as many as facts; of accumulating ones each part counts.
    """

    events: int
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    p999_ms: float | None


@dataclass(frozen=True)
class History:
    """A pipeline's figures by step, oldest first; all lists are equally long.

    Attributes:
        step_seconds: length of a step.
        at: start of each step, in seconds since 1970.
        arrived: events per second that were stored anywhere; a step counts what was closed in it.
        loaded, shed, unmatched, rejected: where they were stored, per second.
        p50_ms, p99_ms: freshness of the facts; None where there are none.
        hit_ratio: share of the front stage's probes that were hits; None without probes.
        distribution: of all the steps together.
    """

    step_seconds: int
    at: list[int]
    arrived: list[float]
    loaded: list[float]
    shed: list[float]
    unmatched: list[float]
    rejected: list[float]
    p50_ms: Numbers
    p99_ms: Numbers
    hit_ratio: Numbers
    distribution: Distribution


def read_history(connection: extensions.connection, pipeline: str, span: HistorySpan) -> History:
    """The history of the span that ends now; what reprocessing did is not part of it.

    Args:
        connection: to the warehouse; this is one transaction on it.
        pipeline: its name; of one that is not known nothing has happened.
        span: 15m is made of the batches, 1h and 1d of their sums by minute.
    """
    length, step = _LENGTHS[span]
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        ((now,),) = cursor.fetchall()
        first = int(now) // step * step - length + step
        cursor.execute(
            _BATCHES if span == "15m" else _MINUTES,
            {"pipeline": pipeline, "since": datetime.fromtimestamp(first).astimezone()},
        )
        return _history(cursor, first, length // step, step, now)


def _history(rows: Iterable[tuple[Any, ...]], first: int, steps: int, step: int, now: float) -> History:
    counts = np.zeros((len(_COUNTS), steps))
    freshness = np.zeros((steps, BUCKETS), np.int64)
    for at, *row, latencies in rows:
        # What was closed since the clock was read belongs to the next look.
        where = int(at.timestamp() - first) // step
        if where < steps:
            counts[:, where] += row
            freshness[where] += from_text(latencies)
    seconds = np.full(steps, float(step))
    seconds[-1] = max(now - (first + (steps - 1) * step), _LEAST_SHARE * step)
    facts, shed, unmatched, rejected = (np.round(counts[k] / seconds, 3).tolist() for k in range(4))
    whole = freshness.sum(axis=0)
    p50, p99 = ([_milliseconds(percentile(each, share)) for each in freshness] for share in (0.5, 0.99))
    return History(
        step_seconds=step,
        at=[first + k * step for k in range(steps)],
        arrived=np.round(counts[:4].sum(axis=0) / seconds, 3).tolist(),
        loaded=facts,
        shed=shed,
        unmatched=unmatched,
        rejected=rejected,
        p50_ms=p50,
        p99_ms=p99,
        hit_ratio=[float(hits / probes) if probes else None for probes, hits in counts[4:].T],
        distribution=Distribution(
            int(whole.sum()), *(_milliseconds(percentile(whole, share)) for share in (0.5, 0.9, 0.99, 0.999))
        ),
    )


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)
