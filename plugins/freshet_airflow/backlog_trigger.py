"""The trigger that fires when it is time to reprocess shed and unmatched tuples."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from freshet_airflow.warehouse_trigger import TROUBLE, Firing, WarehouseTrigger
from freshet_airflow.warehouse_watch import POLL_SECONDS
from spark_jobs.definition.fates import WAITING_PLACES

if TYPE_CHECKING:
    from spark_jobs.waiting_work import WaitingWork

# Each run costs a Spark application: what comes due meanwhile waits for the next one.
_PAUSE = timedelta(seconds=15)
# A run that found the stream overloaded has done nothing, and left no trace in the warehouse.
_LONGEST_PAUSE = timedelta(minutes=5)
_PAUSE_AFTER_TROUBLE = timedelta(minutes=1)
_BUSY = ("starting", "restarting", "catching up", "late", "overloaded", "blocked")
_IN_TROUBLE = ("failed", "abandoned")


class BacklogTrigger(WarehouseTrigger):
    """Fires when tuples are due to be reprocessed, the stream has time to spare, and no run is under way.

    Arguments as for `WarehouseTrigger`.
    """

    def __init__(self, *, pipeline: str, poll_seconds: float = POLL_SECONDS) -> None:
        super().__init__(pipeline=pipeline, poll_seconds=poll_seconds)
        self._firing = Firing(longest_pause=_LONGEST_PAUSE)

    async def look(self, waiting: WaitingWork) -> dict[str, Any] | None:
        """Tuples that wait, when a run is wanted."""
        status, last = waiting.status, waiting.status.reprocessing
        # A driver that gets ready needs the machine; so does a stream that is overloaded. What blocks a stream is
        # likely to be in the way here as well.
        if not waiting.due or waiting.reprocessing or status.state in _BUSY:
            return None
        if last is not None and last.closed_at is not None:
            pause = _PAUSE_AFTER_TROUBLE if last.state in _IN_TROUBLE else _PAUSE
            if waiting.read_at - last.closed_at < pause:
                return None
        done = None if last is None else TROUBLE if last.state in _IN_TROUBLE else last.batch_no
        if not self._firing.fires(done, waiting.read_at):
            return None
        return {place: getattr(status, place) for place in WAITING_PLACES}
