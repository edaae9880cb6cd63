"""The trigger that fires when a pipeline has loaded facts, for DAGs that go on with them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from freshet_airflow.warehouse_trigger import WarehouseTrigger
from freshet_airflow.warehouse_watch import POLL_SECONDS

if TYPE_CHECKING:
    from spark_jobs.waiting_work import WaitingWork

AT_MOST_EVERY = timedelta(minutes=1)


class NewFactsTrigger(WarehouseTrigger):
    """Fires when there are facts that no event has told of, once a minute at most; what comes meanwhile waits for that.

    After a start of the triggerer it fires once for all facts that there are: what was told before it can't know. Parts
    that fill in accumulating facts are no new facts. Arguments as for `WarehouseTrigger`.
    """

    def __init__(self, *, pipeline: str, poll_seconds: float = POLL_SECONDS) -> None:
        super().__init__(pipeline=pipeline, poll_seconds=poll_seconds)
        self._told = 0
        self._told_at: datetime | None = None

    async def look(self, waiting: WaitingWork) -> dict[str, Any] | None:
        """How many facts the pipeline has loaded so far."""
        loaded, now = waiting.status.loaded, waiting.read_at
        if loaded == self._told or (self._told_at is not None and now - self._told_at < AT_MOST_EVERY):
            return None
        self._told, self._told_at = loaded, now
        return {"loaded": loaded}
