"""The trigger that fires when it is time to validate facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from freshet_airflow.warehouse_trigger import TROUBLE, Firing, WarehouseTrigger
from freshet_airflow.warehouse_watch import POLL_SECONDS

if TYPE_CHECKING:
    from spark_jobs.waiting_work import WaitingWork

_ENDED = ("stopped", "down")
_IN_TROUBLE = ("error", "cut off")


class FactsLoadedTrigger(WarehouseTrigger):
    """Fires when there are facts that no validation has looked at for as long as the pipeline's file allows.

    That is `validation: {every: ...}`. When the stream has ended, it fires at once for the last facts. Arguments as
    for `WarehouseTrigger`.
    """

    def __init__(self, *, pipeline: str, poll_seconds: float = POLL_SECONDS) -> None:
        super().__init__(pipeline=pipeline, poll_seconds=poll_seconds)
        self._firing = Firing()

    async def look(self, waiting: WaitingWork) -> dict[str, Any] | None:
        """The last validation's number, when the next one is wanted."""
        last = waiting.status.validation
        since = waiting.unvalidated_since
        if since is None or (last is not None and last.running_since is not None):
            return None
        ended = waiting.status.epoch if waiting.status.state in _ENDED else None
        if ended is None and waiting.read_at - since < waiting.validated_every:
            return None
        number = None if last is None else last.validation_id
        # One that came to nothing has looked at nothing, and so may the next.
        done = TROUBLE if last is not None and last.result in _IN_TROUBLE else number
        return {"last_validation": number} if self._firing.fires((done, ended), waiting.read_at) else None
