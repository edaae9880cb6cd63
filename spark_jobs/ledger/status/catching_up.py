"""How far a driver has caught up with what had waited until it was ready: read from all its batches, each once."""

from __future__ import annotations

from datetime import datetime, timedelta

from psycopg2 import extensions

from spark_jobs.ledger.status.overload import LoadedBatch
from spark_jobs.warehouse.latency import from_text

_ROWS = 1000
_BATCHES = """
    SELECT batch_no, closed_at, array_to_string(arrival_latency, ' ') FROM freshet.batch
    WHERE pipeline = %s AND batch_no > %s AND state = 'committed' AND closed_at > %s ORDER BY batch_no LIMIT %s
"""


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
