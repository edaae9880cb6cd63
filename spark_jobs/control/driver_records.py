"""Which process drives, or drove, a pipeline, and whether it lives. Light to import: Airflow reads this, too."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from psycopg2 import extensions

from spark_jobs.control.host_processes import is_gone, this_host

MAX_SILENCE = timedelta(seconds=30)
# An outage of the warehouse makes all heartbeats old; the processes that live beat again within this time.
_FIRST_BEATS_SECONDS = 6.0
_POLL_SECONDS = 0.25
# The columns of a DriverRecord.
_RECORD = """
    pipeline, driver.epoch, state, host, process_id, process_started_at, spark_application_id, spark_ui_url,
    log_file, started_at, heartbeat_at, stopped_at, error, clock_timestamp()
"""


@dataclass(frozen=True)
class DriverRecord:
    """One row of freshet.driver: a process that drives, or drove, a pipeline. All times are zoned.

    Attributes:
        read_at: the warehouse's clock when the row was read; silence is measured against it.
    """

    pipeline: str
    epoch: int
    state: Literal["running", "stopped", "failed", "fenced"]
    host: str
    process_id: int
    process_started_at: datetime
    spark_application_id: str | None
    spark_ui_url: str | None
    log_file: str | None
    started_at: datetime
    heartbeat_at: datetime
    stopped_at: datetime | None
    error: str | None
    read_at: datetime

    def is_alive(self, max_silence: timedelta = MAX_SILENCE, now: datetime | None = None) -> bool:
        """Whether the driver still runs, as far as can be told from here.

        Its state must be running and its last heartbeat younger than `max_silence` at `now` (default: when the
        record was read, by the warehouse's clock). On its own host the process must exist too.
        """
        if self.state != "running" or (now or self.read_at) - self.heartbeat_at > max_silence:
            return False
        return not is_gone(self.host, self.process_id, self.process_started_at)


def newest_driver(connection: extensions.connection, pipeline: str) -> DriverRecord | None:
    """The driver that took over last, or None if the pipeline never had one."""
    with connection, connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {_RECORD} FROM freshet.driver WHERE pipeline = %s ORDER BY epoch DESC LIMIT 1", [pipeline]
        )
        row = cursor.fetchone()
    return None if row is None else DriverRecord(*row)


def living_driver(connection: extensions.connection, driver: str) -> DriverRecord | None:
    """A record of the process that is this driver, of any of its pipelines that it loads now; None without one.

    Where the process lives and only its heartbeats are old, they are given some seconds to go on.
    """
    old = {record.pipeline: record for record in _running(connection, driver)}
    deadline = time.monotonic() + _FIRST_BEATS_SECONDS
    while True:
        present = [record for record in _running(connection, driver) if record.is_alive(timedelta.max)]
        for record in present:
            former = old.get(record.pipeline)
            if record.is_alive() or former is None or record.heartbeat_at != former.heartbeat_at:
                return record
        if not present or time.monotonic() > deadline:
            return None
        time.sleep(_POLL_SECONDS)


def _running(connection: extensions.connection, driver: str) -> list[DriverRecord]:
    with connection, connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {_RECORD} FROM freshet.driver JOIN freshet.pipeline ON name = pipeline "
            "WHERE coalesce(definition ->> 'driver', name) = %s AND state = 'running'",
            [driver],
        )
        return [DriverRecord(*row) for row in cursor.fetchall()]


def took_over_since(connection: extensions.connection, driver: str, moment: datetime) -> bool:
    """Whether a process of this driver that was started on this host since then has ever taken a pipeline over."""
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT FROM freshet.driver JOIN freshet.pipeline ON name = pipeline "
            "WHERE coalesce(definition ->> 'driver', name) = %s AND host = %s AND process_started_at >= %s LIMIT 1",
            [driver, this_host(), moment],
        )
        return cursor.rowcount > 0
