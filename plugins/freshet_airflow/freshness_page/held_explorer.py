"""What the page shows of held tuples: read from the warehouse when a browser asks, over a connection of its own."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from psycopg2 import extensions

from freshet_airflow.freshness_page.warehouse_reader import SharedReads, WarehouseReader
from spark_jobs.reprocessing.held_tuples import (
    HeldFilter,
    count_forgettable,
    held_groups,
    held_samples,
    registered_lookups,
    until_now,
)

# All that is held is read for it, which may take seconds: the status must not wait, nor may it be asked for often.
_YOUNG_SECONDS = 3.0
_PATIENCE_SECONDS = 12.0
_SAMPLES = 20
_LONGEST_RECORD = 4000


class HeldExplorer:
    """Groups and samples of held tuples, as plain values for JSON."""

    def __init__(self) -> None:
        self._warehouse = WarehouseReader("freshet page, held tuples")
        self._looks = SharedReads(self._warehouse.thread, self._read, _PATIENCE_SECONDS)

    async def look(self, chosen: HeldFilter) -> dict[str, Any]:
        """When it was read, why tuples were held then, the newest of them, and how many of them can be forgotten.

        Raises:
            WarehouseUnavailableError: the warehouse does not answer, or refuses.
        """
        return await self._looks.value(chosen, _YOUNG_SECONDS)

    def close(self) -> None:
        """Leave the warehouse."""
        self._warehouse.close()

    def _read(self, chosen: HeldFilter) -> dict[str, Any]:
        def read(connection: extensions.connection) -> dict[str, Any]:
            shown = until_now(connection, chosen)
            assert shown.until is not None
            groups = held_groups(connection, shown, registered_lookups(connection, shown.pipeline))
            samples = held_samples(connection, shown, _SAMPLES, _LONGEST_RECORD)
            return {
                "read_at": shown.until.isoformat(),
                "forgettable": count_forgettable(connection, shown),
                "groups": [{**asdict(group), "oldest": group.oldest.isoformat()} for group in groups],
                "samples": [{**asdict(each), "arrived_at": each.arrived_at.isoformat()} for each in samples],
            }

        return self._warehouse.read(read)
