"""What the event triggers on the warehouse have in common: one look at it serves them all, and none fires too often."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Hashable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from freshet_airflow.warehouse_watch import POLL_SECONDS, watch_warehouse

if TYPE_CHECKING:
    from spark_jobs.waiting_work import WaitingWork

_FIRST_PAUSE = timedelta(minutes=1)

TROUBLE = "trouble"
"""Stands in a matter for the number of an attempt that came to nothing: the next attempt is the same matter."""

WaitingWorkByName = Mapping[str, "WaitingWork"]


class Firing:
    """Fires once for a matter; again for the same one only after a pause, which doubles each time.

    A DAG run that was asked for may take its time, or the DAG may be paused; an event may also get lost.

    Args:
        longest_pause: the pause doubles up to this.
    """

    def __init__(self, longest_pause: timedelta = timedelta(hours=1)) -> None:
        self._longest_pause = longest_pause
        self._matter: Hashable = None
        self._pause = _FIRST_PAUSE
        self._again_at: datetime | None = None

    def fires(self, matter: Hashable, now: datetime) -> bool:
        """Whether to fire for this matter now; true is taken as done."""
        if self._again_at is None or matter != self._matter:
            self._pause = _FIRST_PAUSE
        elif now < self._again_at:
            return False
        else:
            self._pause = min(2 * self._pause, self._longest_pause)
        self._matter, self._again_at = matter, now + self._pause
        return True


class WarehouseTrigger(BaseEventTrigger):
    """Looks at a pipeline again and again, and fires when there is something to do.

    All triggers of a triggerer share one stream of looks (`shared_stream_key`), whatever their classes and pipelines.
    It goes on while the warehouse is away, and without end.

    Args:
        pipeline: its name; one that is not registered yet is waited for.
        poll_seconds: time between two looks.
    """

    def __init__(self, *, pipeline: str, poll_seconds: float = POLL_SECONDS) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.pipeline = pipeline
        self.poll_seconds = poll_seconds

    @abstractmethod
    async def look(self, waiting: WaitingWork) -> dict[str, Any] | None:
        """What to tell with an event when this waits to be done about the pipeline; None: no event."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Path of this class and its arguments."""
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {"pipeline": self.pipeline, "poll_seconds": self.poll_seconds}

    def shared_stream_key(self) -> Hashable:
        """The same for all triggers that look equally often."""
        return ("freshet warehouse", self.poll_seconds)

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[WaitingWorkByName]:
        """Look at all pipelines, without end."""
        async for waiting_work in watch_warehouse(kwargs["poll_seconds"]):
            yield waiting_work

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[WaitingWorkByName]
    ) -> AsyncIterator[TriggerEvent]:
        """The events of this trigger's pipeline."""
        async for waiting_work in shared_stream:
            waiting = waiting_work.get(self.pipeline)
            told = None if waiting is None else await self.look(waiting)
            if told is not None:
                yield TriggerEvent({"pipeline": self.pipeline, **told})

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """The same with a stream of its own, where none is shared."""
        async for event in self.filter_shared_stream(self.open_shared_stream(self.serialize()[1])):
            yield event
