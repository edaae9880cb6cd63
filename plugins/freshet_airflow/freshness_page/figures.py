"""The figures that the page shows, read from the warehouse for all browsers together."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from psycopg2 import extensions

from freshet_airflow.freshness_page.warehouse_reader import SharedRead, SharedReads, WarehouseReader
from spark_jobs.ledger.status.events import read_events
from spark_jobs.ledger.status.figures import page_columns, page_figures
from spark_jobs.ledger.status.filled_facts import read_filled
from spark_jobs.ledger.status.history import HistorySpan, read_history
from spark_jobs.ledger.status.objective import read_objective
from spark_jobs.ledger.status.pipeline_status import StatusReader
from spark_jobs.settings import home
from spark_jobs.source.files.landing_look import LandingLook

# Pages ask every two seconds; a span's newest step is still filling.
_STATUS_SECONDS = 1.0
_HISTORY_SECONDS = {"15m": 2.0, "1h": 10.0, "1d": 30.0}
_EVENTS_SECONDS = 3.0
_OBJECTIVE_SECONDS = 30.0  # a month of minutes is read
_PATIENCE_SECONDS = 4.0


class Figures:
    """Status and history of the pipelines, as plain values for JSON.

    However many browsers are open, the warehouse is asked about once a second, over one connection.
    """

    def __init__(self) -> None:
        self._warehouse = WarehouseReader("freshet page")
        self._look = LandingLook(home())
        self._status_reader = StatusReader(look=self._look)
        self._status_connection: extensions.connection | None = None
        self._status = SharedRead(self._warehouse.thread, self._read_status, _STATUS_SECONDS, _PATIENCE_SECONDS)
        self._histories = SharedReads(self._warehouse.thread, self._read_history, _PATIENCE_SECONDS)
        self._events = SharedReads(self._warehouse.thread, self._read_events, _PATIENCE_SECONDS)
        self._objectives = SharedReads(self._warehouse.thread, self._read_objective, _PATIENCE_SECONDS)

    async def status(self) -> dict[str, Any]:
        """When the status was read, the columns of the overview, each pipeline's figures by key, and its status.

        Raises:
            WarehouseUnavailableError: the warehouse does not answer, or refuses.
        """
        return await self._status.value()

    async def history(self, pipeline: str, span: HistorySpan) -> dict[str, Any]:
        """Rates and freshness over time; all lists are empty for a pipeline that is not known. Raises like `status`."""
        return await self._histories.value((pipeline, span), _HISTORY_SECONDS[span])

    async def events(self, pipeline: str) -> list[dict[str, Any]]:
        """What has happened to a pipeline, the newest first. Raises like `status`."""
        return await self._events.value(pipeline, _EVENTS_SECONDS)

    async def objective(self, pipeline: str) -> dict[str, Any]:
        """How often the target was kept, and how complete accumulating facts are. Raises like `status`."""
        return await self._objectives.value(pipeline, _OBJECTIVE_SECONDS)

    def close(self) -> None:
        """Leave the warehouse."""
        self._warehouse.close()

    def _read_status(self) -> dict[str, Any]:
        def read(connection: extensions.connection) -> dict[str, Any]:
            if connection is not self._status_connection:
                # What was read before may be another warehouse's, or that of an older backup.
                self._status_reader, self._status_connection = StatusReader(look=self._look), connection
            statuses = self._status_reader.read(connection)
            return {
                "read_at": datetime.now(UTC).isoformat(),
                "columns": page_columns(),
                "figures": {status.name: page_figures(status) for status in statuses},
                "pipelines": [status.to_dict() for status in statuses],
            }

        return self._warehouse.read(read)

    def _read_history(self, asked: tuple[str, HistorySpan]) -> dict[str, Any]:
        pipeline, span = asked
        return self._warehouse.read(lambda connection: asdict(read_history(connection, pipeline, span)))

    def _read_events(self, pipeline: str) -> list[dict[str, Any]]:
        events = self._warehouse.read(lambda connection: read_events(connection, pipeline))
        return [
            {**asdict(event), "began_at": event.began_at.isoformat(), "ended_at": _iso(event.ended_at)}
            for event in events
        ]

    def _read_objective(self, pipeline: str) -> dict[str, Any]:
        objective = self._warehouse.read(lambda connection: read_objective(connection, pipeline))
        filled = self._warehouse.read(lambda connection: read_filled(connection, pipeline))
        return {"objective": objective and asdict(objective), "filled": filled}


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
