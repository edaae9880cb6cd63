"""Whether a stream is overloaded, catches up or has time to spare: told by its batches in the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from numpy.typing import ArrayLike
from psycopg2 import extensions

from spark_jobs.control.driver_records import newest_driver
from spark_jobs.ledger.latency import from_text, longest, percentile, total

# A burst is over when nothing has been shed for this long: batches come every second or two.
LOOKED_BACK = timedelta(seconds=15)
_ROWS = 1000
_BATCHES = """
    SELECT batch_no, closed_at, array_to_string(arrival_latency, ' ') FROM freshet.batch
    WHERE pipeline = %s AND batch_no > %s AND state = 'committed' AND closed_at > %s ORDER BY batch_no LIMIT %s
"""


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


class CatchingUp:
    """What had landed before a driver was ready, what landed while it loaded that, and so on: waves.

    Each has waited for the one before, and is shorter than that where the stream catches up. Where it is not, more
    arrives than can be loaded, and no further wave is excused.

    Args:
        ready_at: when the driver began to load.
    """

    def __init__(self, ready_at: datetime) -> None:
        self.ready_at = ready_at
        self.last_batch = 0
        self.over = False
        self._begun = self._loaded = ready_at
        self._former = timedelta.max

    @property
    def waited_until(self) -> datetime:
        """What landed before had to wait."""
        return self._loaded if self._is_shorter() else self._begun

    def add(self, batch: LoadedBatch) -> None:
        """Take the driver's next batch."""
        if not batch.has_landed_before(self._begun) and self._is_shorter():
            self._begun, self._former = self._loaded, self._loaded - self._begun
        if batch.has_landed_before(self._begun):
            self._loaded = batch.closed_at
        elif batch.has_landed():
            self.over = True

    def _is_shorter(self) -> bool:
        return timedelta() < self._loaded - self._begun < self._former


class CatchingUpReader:
    """Reads what each driver has loaded since it was ready, for as long as that had waited."""

    def __init__(self) -> None:
        self._known: dict[str, CatchingUp] = {}

    def waited_until(self, cursor: extensions.cursor, pipeline: str, ready_at: datetime) -> datetime:
        """What landed before had to wait, as far as the driver has come that was ready then."""
        known = self._known.get(pipeline)
        if known is None or known.ready_at != ready_at:
            known = self._known[pipeline] = CatchingUp(ready_at)
        more = True
        while more and not known.over:
            cursor.execute(_BATCHES, [pipeline, known.last_batch, ready_at, _ROWS])
            rows = cursor.fetchall()
            for batch_no, closed_at, arrival_latency in rows:
                known.add(LoadedBatch(closed_at, 0, None, from_text(arrival_latency)))
                known.last_batch = batch_no
            more = len(rows) == _ROWS
        return known.waited_until
