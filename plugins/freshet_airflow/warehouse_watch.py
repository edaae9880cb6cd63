"""Looks at the warehouse for all triggers of a triggerer, over one connection, in a thread beside the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg2
from psycopg2 import extensions

from freshet_airflow.freshness_metrics import FreshnessMetrics
from freshet_airflow.warehouse_connection import READER_CONNECTION_ID, warehouse_url_in_trigger
from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.settings import home
from spark_jobs.warehouse.connection import connect

if TYPE_CHECKING:
    from spark_jobs.waiting_work import WaitingWork, WaitingWorkReader

_log = logging.getLogger(__name__)

POLL_SECONDS = 2.0
# Short: otherwise a hiccup would look like a missed target for as long as the window remembers it.
WINDOW = timedelta(seconds=15)
_NO_PATIENCE = timedelta(0)


async def watch_warehouse(poll_seconds: float) -> AsyncIterator[dict[str, WaitingWork]]:
    """What waits to be done about all pipelines, by name, again and again, without end.

    A warehouse that is away is waited for. Also sends the pipelines' metrics.

    Args:
        poll_seconds: time between two looks.
    """
    watch, metrics = _WarehouseWatch(), FreshnessMetrics()
    try:
        while True:
            waiting_work = await watch.look()
            if waiting_work is not None:
                metrics.send(waiting.status for waiting in waiting_work.values())
                yield waiting_work
            await asyncio.sleep(poll_seconds)
    finally:
        watch.close()


class _WarehouseWatch:
    """The connection, and what was read over it already."""

    def __init__(self) -> None:
        self._connection: extensions.connection | None = None
        self._reader: WaitingWorkReader | None = None
        self._away = False

    async def look(self) -> dict[str, WaitingWork] | None:
        """What there is to see; None while the warehouse does not answer."""
        try:
            if self._connection is None:
                url = await warehouse_url_in_trigger(READER_CONNECTION_ID)
                self._connection = await asyncio.to_thread(
                    connect, url, application_name="freshet watch", patience=_NO_PATIENCE
                )
            waiting_work = await asyncio.to_thread(self._read, self._connection)
        # A migration that is not made yet is waited for as well: whatever the warehouse says, the watch goes on.
        except (psycopg2.Error, WarehouseUnavailableError) as error:
            if not self._away:
                _log.warning("The warehouse does not answer; waiting for it. %s", str(error).strip())
            self._away = True
            self.close()
            return None
        # All triggers live by this watch: an error of Airflow's API, say, ends for them with the next look.
        except Exception:
            _log.exception("A look at the warehouse failed; trying again.")
            self.close()
            return None
        self._away = False
        return waiting_work

    def close(self) -> None:
        """Leave the warehouse, and forget what it held: the next one may be restored from an older backup."""
        self._reader = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read(self, connection: extensions.connection) -> dict[str, WaitingWork]:
        if self._reader is None:
            # Not at the top: the DAG files, which are read again and again, lead here.
            from spark_jobs.source.files.landing_look import LandingLook
            from spark_jobs.waiting_work import WaitingWorkReader

            self._reader = WaitingWorkReader(WINDOW, LandingLook(home()))
        return self._reader.read(connection)
