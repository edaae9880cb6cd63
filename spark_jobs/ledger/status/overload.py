"""Whether a stream is overloaded, or has time to spare: told by its newest batches in the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from numpy.typing import ArrayLike
from psycopg2 import extensions

from spark_jobs.warehouse.drivers import newest_driver
from spark_jobs.warehouse.latency import longest, percentile, total

# A burst is over when nothing has been shed for so long: batches come every second or two.
LOOKED_BACK = timedelta(seconds=15)


@dataclass(frozen=True)
class StreamLoad:
    """How busy a stream is.

    Attributes:
        overloaded: it sheds, or does not keep its freshness target.
        reason: by what that is told; None where it has time to spare.
        catching_up: it is late with what had to wait because nothing ran, and sheds nothing.
    """

    overloaded: bool
    reason: str | None = None
    catching_up: bool = False


class LoadedBatch(NamedTuple):
    """What overload is told by, of a batch that was committed; histograms have shape (BUCKETS,)."""

    closed_at: datetime
    shed: int
    event_latency: ArrayLike | None
    arrival_latency: ArrayLike | None

    def has_landed(self) -> bool:
        """Whether it had tuples at all."""
        return longest(self.arrival_latency) is not None

    def has_landed_before(self, moment: datetime) -> bool:
        """Whether one of its tuples had landed before that."""
        oldest = longest(self.arrival_latency)
        return oldest is not None and self.closed_at - timedelta(seconds=oldest) < moment


def stream_load(connection: extensions.connection, pipeline: str, looked_back: timedelta = LOOKED_BACK) -> StreamLoad:
    """Judge by the batches that were closed lately; a stream without any, or that does not run, has time to spare.

    Args:
        connection: to the warehouse, in no transaction.
        pipeline: its name; one that is not registered has time to spare, too.
        looked_back: how long a batch counts as new.
    """
    driver = newest_driver(connection, pipeline)
    if driver is None or not driver.is_alive():
        return StreamLoad(False)
    with connection, connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT closed_at, shed, event_latency, arrival_latency, freshness_target
            FROM freshet.batch JOIN freshet.pipeline ON name = pipeline
            WHERE pipeline = %s AND state = 'committed' AND closed_at > clock_timestamp() - %s
            ORDER BY batch_no DESC
            """,
            [pipeline, looked_back],
        )
        batches = cursor.fetchall()
    if not batches:
        return StreamLoad(False)
    return judge([LoadedBatch(*batch) for *batch, _ in batches], batches[0][-1], looked_back)


def judge(
    batches: Sequence[LoadedBatch],
    target: timedelta,
    looked_back: timedelta = LOOKED_BACK,
    waited_until: datetime | None = None,
) -> StreamLoad:
    """Judge by batches that were read already.

    Args:
        batches: those that were committed lately.
        target: how fresh the facts are to be.
        looked_back: how long ago "lately" began.
        waited_until: what landed before had to wait because nothing ran, see `CatchingUp`; None: nothing had to.
    """
    shed = sum(batch.shed for batch in batches)
    seconds = f"the last {looked_back.total_seconds():.0f} s"
    if shed:
        return StreamLoad(True, f"{shed:,} tuples were shed within {seconds}")
    p99 = _p99(batches)
    if p99 is None or p99 <= target.total_seconds():
        return StreamLoad(False)
    reason = f"freshness p99 of {seconds} is {p99:.1f} s, and its target {target.total_seconds():g} s"
    if waited_until is None:
        return StreamLoad(True, reason)
    others = _p99([batch for batch in batches if not batch.has_landed_before(waited_until)])
    if others is not None and others > target.total_seconds():
        return StreamLoad(True, reason)
    return StreamLoad(True, f"{reason}: events have waited until a driver was ready", catching_up=True)


def _p99(batches: Sequence[LoadedBatch]) -> float | None:
    return percentile(total(batch.event_latency for batch in batches), 0.99)
