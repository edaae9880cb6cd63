"""The trigger that reports when a pipeline misses its freshness target, and when it keeps it again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg2
from psycopg2 import extensions

from freshet_airflow.freshness_judge import FreshnessJudge
from freshet_airflow.warehouse_connection import DEFAULT_CONNECTION_ID, warehouse_url_in_trigger
from freshet_airflow.warehouse_trigger import Firing, WarehouseTrigger
from freshet_airflow.warehouse_watch import POLL_SECONDS
from spark_jobs.control import freshness_episodes
from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.warehouse.connection import connect

if TYPE_CHECKING:
    from spark_jobs.waiting_work import WaitingWork


class FreshnessTrigger(WarehouseTrigger):
    """Keeps the pipeline's rows of freshet.freshness_episode, and fires when there is news of them to tell.

    An episode begins when the target has been missed for longer than `freshness: {grace: ...}` of the pipeline.
    Arguments as for `WarehouseTrigger`.
    """

    def __init__(self, *, pipeline: str, poll_seconds: float = POLL_SECONDS) -> None:
        super().__init__(pipeline=pipeline, poll_seconds=poll_seconds)
        self._judge = FreshnessJudge()
        self._firing = Firing()

    async def look(self, waiting: WaitingWork) -> dict[str, Any] | None:
        """The oldest episode of which there is news. One that begins or ends now is news at the next look."""
        miss = self._judge.begins(waiting)
        is_open = waiting.status.episode is not None
        if miss is not None and not is_open:
            await self._write(lambda session: freshness_episodes.begin(session, self.pipeline, miss.since, miss.reason))
        elif is_open and self._judge.is_over(waiting):
            await self._write(lambda session: freshness_episodes.end(session, self.pipeline))
        news = [(episode.episode_id, episode.news) for episode in waiting.episodes if episode.news is not None]
        if not news or not self._firing.fires(tuple(news), waiting.read_at):
            return None
        episode_id, what = news[0]
        return {"episode": episode_id, "news": what}

    async def _write(self, write: Callable[[extensions.connection], None]) -> None:
        """Write with the rights of a loader: who watches may only read. What fails is tried at the next look."""
        try:
            url = await warehouse_url_in_trigger(DEFAULT_CONNECTION_ID)
            await asyncio.to_thread(_write, url, write)
        except (psycopg2.Error, WarehouseUnavailableError) as error:
            self.log.warning("%s: could not write an episode down. %s", self.pipeline, str(error).strip())


def _write(url: str, write: Callable[[extensions.connection], None]) -> None:
    with closing(connect(url, application_name="freshet watch", patience=timedelta(0))) as connection:
        write(connection)
