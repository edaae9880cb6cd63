"""Every registered pipeline with its newest driver, and the state that follows from both."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, get_args

from psycopg2 import extensions

from spark_jobs.control.driver_records import MAX_SILENCE
from spark_jobs.control.drivers import Restart
from spark_jobs.control.host_processes import GONE, is_gone
from spark_jobs.warehouse.connection import takes_writes

# A driver is there, and goes on loading.
Loading = Literal["running", "idle", "late", "overloaded", "catching up", "rejecting", "draining"]
State = Literal["starting", Loading, "blocked", "stopped", "restarting", "down"]
LOADING: tuple[Loading, ...] = get_args(Loading)

# A driver that has not renewed its first heartbeat is still getting ready.
_FIRST_HEARTBEAT = timedelta(seconds=1)
# How long a driver that was launched has to take its pipeline over: the default of Airflow's StreamJobTrigger.
START_TIMEOUT = timedelta(minutes=5)

_READ_ONLY = (
    "the warehouse's server takes no writes, not even the driver's heartbeat: it is a standby, or was made read-only. "
    "Let it write again"
)


class DrivenPipeline(NamedTuple):
    """A pipeline and its newest driver, whose columns are None if there never was one.

    Attributes:
        looked_at: when the source was looked at last, by this driver or, before its first look, by a former one.
        unread_files, unread_partitions, unread_bytes: what had landed then and was in no batch.
        unread_since: when the oldest of it landed.
        partitions: of a topic, what was unread of each then, as `PartitionLag` has it; None of other sources.
        takes_writes: whether the server lets drivers write. If not, their silence tells nothing of them.
    """

    name: str
    epoch: int
    desired_state: str
    desired_at: datetime | None
    freshness_target: timedelta
    driver_state: str | None
    host: str | None
    process_id: int | None
    process_started_at: datetime | None
    started_at: datetime | None
    heartbeat_at: datetime | None
    stopped_at: datetime | None
    driver_error: str | None
    restart_number: int | None
    restart_most: int | None
    restart_noted_at: datetime | None
    log_file: str | None
    spark_ui_url: str | None
    told_blocked_by: str | None
    told_blocked_since: datetime | None
    looked_at: datetime | None
    unread_files: int | None
    unread_partitions: int | None
    unread_bytes: int | None
    unread_since: datetime | None
    partitions: list[dict[str, Any]] | None
    now: datetime
    takes_writes: bool

    @property
    def silence(self) -> timedelta | None:
        """Time since the driver's last sign of life."""
        return None if self.heartbeat_at is None else self.now - self.heartbeat_at

    @property
    def _is_silent(self) -> bool:
        return self.silence is not None and self.silence > MAX_SILENCE

    @property
    def blocked_by(self) -> str | None:
        """What keeps the driver from loading, as far as a living one can tell; None: nothing."""
        return _READ_ONLY if self._is_silent and not self.takes_writes else self.told_blocked_by

    @property
    def blocked_since(self) -> datetime | None:
        """Since when."""
        return self.heartbeat_at if self.blocked_by is _READ_ONLY else self.told_blocked_since

    @property
    def start_wanted_at(self) -> datetime | None:
        """When a start was asked for that no driver has followed; None if none is expected.

        That the pipeline is to run says nothing by itself: after a driver that has loaded all that had landed and ended
        (`--once`), no other one was asked for.
        """
        if self.desired_state != "running" or self.driver_state not in (None, "stopped") or self.desired_at is None:
            return None
        return self.desired_at if self.stopped_at is None or self.desired_at > self.stopped_at else None

    @property
    def is_gone(self) -> bool:
        """Whether the driver is said to run, but its process can be seen to have ended."""
        if self.driver_state != "running":
            return False
        assert self.host is not None
        assert self.process_id is not None
        assert self.process_started_at is not None
        return is_gone(self.host, self.process_id, self.process_started_at)

    @property
    def error(self) -> str | None:
        """Why the driver does not run any more, where that is known."""
        return GONE if self.is_gone else self.driver_error

    @property
    def restart(self) -> Restart | None:
        """The attempt to bring the driver back that is under way, which may take as long as a start."""
        if self.restart_number is None:
            return None
        assert self.restart_most is not None
        assert self.restart_noted_at is not None
        under_way = self.now - self.restart_noted_at <= START_TIMEOUT
        return Restart(self.restart_number, self.restart_most) if under_way else None

    @property
    def lives(self) -> bool:
        """Whether its driver is there, as far as can be told from here."""
        return self.driver_state == "running" and not self.is_gone and not (self._is_silent and self.takes_writes)

    def state(self, doing: State) -> State:
        """What the pipeline does.

        Args:
            doing: what a driver does that is there and loads.
        """
        if self.start_wanted_at is not None:
            return "starting" if self.now - self.start_wanted_at <= START_TIMEOUT else "down"
        if self.driver_state is None or self.driver_state == "stopped":
            return "stopped"
        assert self.started_at is not None
        assert self.heartbeat_at is not None
        if not self.lives:
            return "restarting" if self.restart else "down"
        if self.blocked_by is not None:
            return "blocked"
        if self.heartbeat_at - self.started_at < _FIRST_HEARTBEAT:
            return "starting"
        return "draining" if self.desired_state == "draining" else doing


def read_pipelines(cursor: extensions.cursor) -> list[DrivenPipeline]:
    """All registered pipelines, by name."""
    cursor.execute(
        """
        SELECT name, pipeline.epoch, desired_state, desired_at, freshness_target, driver.state, host, process_id,
            process_started_at, started_at, heartbeat_at, stopped_at, error, restart_number, restart_most,
            restart_noted_at, log_file, spark_ui_url, blocked_by, blocked_since, seen.*, clock_timestamp()
        FROM freshet.pipeline LEFT JOIN freshet.driver ON driver.pipeline = name AND driver.epoch = pipeline.epoch
        LEFT JOIN LATERAL (
            SELECT looked_at, unread_files, unread_partitions, unread_bytes, unread_since, partitions
            FROM freshet.driver AS looking
            WHERE looking.pipeline = name AND looked_at IS NOT NULL ORDER BY looking.epoch DESC LIMIT 1) AS seen ON true
        ORDER BY name
        """
    )
    writable = takes_writes(cursor.connection)
    return [DrivenPipeline._make((*row, writable)) for row in cursor.fetchall()]
