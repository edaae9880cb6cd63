"""The figures that the page shows, read from the warehouse for all browsers together."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from psycopg2 import extensions

from freshet_airflow.freshness_page.warehouse_reader import SharedRead, WarehouseReader
from spark_jobs.ledger.status.history import HistorySpan, read_history
from spark_jobs.ledger.status.pipeline_status import StatusReader
from spark_jobs.settings import home
from spark_jobs.source.landing_look import LandingLook

# Pages ask every two seconds; a span's newest step is still filling.
_STATUS_SECONDS = 1.0
_HISTORY_SECONDS = {"15m": 2.0, "1h": 10.0, "1d": 30.0}
_PATIENCE_SECONDS = 4.0
_MOST_HISTORIES = 200


class Figures:
    """Status and history of the pipelines, as plain values for JSON.

    However many browsers are open, the warehouse is asked about once a second, over one connection.
    """

    def __init__(self) -> None:
        self._warehouse = WarehouseReader("freshet page")
        self._look = LandingLook(home())
        self._status_reader = StatusReader(look=self._look)
        self._status_connection: extensions.connection | None = None
        self._status = SharedRead(self._read_status, _STATUS_SECONDS, _PATIENCE_SECONDS)
        self._histories: OrderedDict[tuple[str, HistorySpan], SharedRead[dict[str, Any]]] = OrderedDict()

    async def status(self) -> dict[str, Any]:
        """When the status was read, and the status of every pipeline.

        Raises:
            WarehouseUnavailableError: the warehouse does not answer, or refuses.
        """
        return await self._status.value()

    async def history(self, pipeline: str, span: HistorySpan) -> dict[str, Any]:
        """Rates and freshness over time; all lists are empty for a pipeline that is not known. Raises like `status`."""
        key = (pipeline, span)
        if key not in self._histories:
            self._histories[key] = SharedRead(
                lambda: self._read_history(pipeline, span), _HISTORY_SECONDS[span], _PATIENCE_SECONDS
            )
        self._histories.move_to_end(key)
        if len(self._histories) > _MOST_HISTORIES:
            self._histories.popitem(last=False)
        return await self._histories[key].value()

    def close(self) -> None:
        """Leave the warehouse."""
        self._warehouse.close()

    def _read_status(self) -> dict[str, Any]:
        def read(connection: extensions.connection) -> dict[str, Any]:
            if connection is not self._status_connection:
                # What was read before may be another warehouse's, or that of an older backup.
                self._status_reader, self._status_connection = StatusReader(look=self._look), connection
            pipelines = [status.to_dict() for status in self._status_reader.read(connection)]
            return {"read_at": datetime.now(UTC).isoformat(), "pipelines": pipelines}

        return self._warehouse.read(read)

    def _read_history(self, pipeline: str, span: HistorySpan) -> dict[str, Any]:
        return self._warehouse.read(lambda connection: asdict(read_history(connection, pipeline, span)))
