"""Who drives a pipeline: epochs, heartbeats and the state an operator wants.

The Spark driver, the Airflow operators and the `freshet` command share this file: it stays light to import.
Every function is one transaction on the psycopg2 connection that it is given.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import psutil
from psycopg2 import extensions

from spark_jobs.errors import PipelineDefinitionError
from spark_jobs.warehouse.fencing import PATIENCE, lock_against_loaders

DesiredState = Literal["running", "draining"]
EndState = Literal["stopped", "failed", "fenced"]

MAX_SILENCE = timedelta(seconds=30)
GONE = "its process is gone: it was killed (kill -9, or no memory was left), or its machine was restarted"
# An outage of the warehouse makes all heartbeats old; the processes that live beat again within this time.
_FIRST_BEATS_SECONDS = 6.0
_POLL_SECONDS = 0.25
_START_TIME_TOLERANCE = timedelta(seconds=2)  # the kernel's boot time, which start times count from, is rounded
_FIRST_PROCESS_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of Linux: not in a container

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


@dataclass(frozen=True)
class PartitionLag:
    """What is unread of a partition of a topic, when it was looked at.

    Attributes:
        partition: its name; with several streams, that of its stream with a `/` before.
        position: offset up to which batches have taken it.
        end: offset of the record that comes next.
        since: since when the first unread record is known to be there, ISO 8601; None without any.
        trouble: why it can't be read, as the broker says; None where it can.
    """

    partition: str
    position: int
    end: int
    since: str | None
    trouble: str | None = None


@dataclass(frozen=True)
class Unread:
    """What has landed in a source and was in no batch when it was looked at.

    Attributes:
        files: how many; one of which a batch has taken a part counts, too.
        bytes: of them, but for such parts; and, about, of the records of topics.
        landed_at: when the oldest of it landed; None without any.
        looked_at: when that was seen, by `time.monotonic` of this process.
        unread_partitions: of topics, how many have such records.
        partitions: of topics, those that are furthest behind first; not all of very many.
    """

    files: int
    bytes: int
    landed_at: datetime | None
    looked_at: float
    unread_partitions: int = 0
    partitions: Sequence[PartitionLag] = ()

    @property
    def age(self) -> timedelta:
        """Time since the look."""
        return timedelta(seconds=max(time.monotonic() - self.looked_at, 0.0))


@dataclass(frozen=True)
class Restart:
    """The attempt to bring a driver back that is under way.

    Attributes:
        number: of the attempt, from 1.
        most: attempts that are made.
    """

    number: int
    most: int


def this_host() -> str:
    """The host's name; in a container also its namespace of process ids, since those mean nothing outside."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = _FIRST_PROCESS_NAMESPACE
    name = socket.gethostname()
    return name if namespace == _FIRST_PROCESS_NAMESPACE else f"{name}/{namespace}"


def process_started_at(process_id: int) -> datetime | None:
    """When the process with this id started; None if there is none, or only its unreaped remains."""
    try:
        process = psutil.Process(process_id)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return datetime.fromtimestamp(process.create_time(), UTC)
    except psutil.NoSuchProcess:
        return None


def is_gone(host: str, process_id: int, started_at: datetime) -> bool:
    """Whether a process on this host has ended; of one on another host nothing is known, and it counts as living.

    Another process may have got its id since, and is told from it by the start time.
    """
    if host != this_host():
        return False
    found = process_started_at(process_id)
    return found is None or abs(found - started_at) > _START_TIME_TOLERANCE


def fence_driver(cursor: extensions.cursor, name: str, patience: timedelta) -> datetime | None:
    """Lock the pipeline's row against loaders, for a new epoch, and mark the driver that it has as fenced.

    Returns:
        when the pipeline was retired; None if it is in use.
    """
    query = "SELECT retired_at FROM freshet.pipeline WHERE name = %s FOR UPDATE"
    rows = lock_against_loaders(cursor, name, query, [name], patience=patience)
    if not rows:
        raise PipelineDefinitionError(
            f"Pipeline {name!r} is not registered in this warehouse. `freshet load {name}` registers it."
        )
    cursor.execute(
        "UPDATE freshet.driver SET state = 'fenced', stopped_at = clock_timestamp() "
        "WHERE pipeline = %s AND state = 'running'",
        [name],
    )
    retired_at: datetime | None = rows[0][0]
    return retired_at


def take_over(
    connection: extensions.connection,
    pipeline: str,
    *,
    log_file: str | os.PathLike[str] | None,
    spark_application_id: str | None = None,
    spark_ui_url: str | None = None,
    patience: timedelta = PATIENCE,
) -> int:
    """Become the pipeline's driver: from the commit of this on, no older driver can write.

    It waits for the loading transactions that older drivers have open, and ends those that stay open longer
    than `patience` (their process was paused or orphaned). The desired state is not changed.

    Returns:
        the new epoch, larger than every older driver's.

    Raises:
        PipelineDefinitionError: the pipeline is not registered, or was retired since it was.
    """
    started_at = process_started_at(os.getpid())
    with connection, connection.cursor() as cursor:
        if fence_driver(cursor, pipeline, patience) is not None:
            raise PipelineDefinitionError(
                f"Pipeline {pipeline} was retired meanwhile. Start it again: it gets its fact table back, if no other "
                f"pipeline has taken it."
            )
        cursor.execute(
            """
            WITH taken AS (
                UPDATE freshet.pipeline SET epoch = epoch + 1, asked_driver = NULL WHERE name = %s
                RETURNING name, epoch
            )
            INSERT INTO freshet.driver (pipeline, epoch, state, host, process_id, process_started_at, log_file,
                                        spark_application_id, spark_ui_url)
            SELECT name, epoch, 'running', %s, %s, %s, %s, %s, %s FROM taken RETURNING epoch
            """,
            [
                pipeline,
                this_host(),
                os.getpid(),
                started_at,
                None if log_file is None else str(Path(log_file)),
                spark_application_id,
                spark_ui_url,
            ],
        )
        row = cursor.fetchone()
    assert row is not None  # the pipeline's row is locked since the first statement
    return int(row[0])


def heartbeat(
    connection: extensions.connection, pipeline: str, epoch: int, unread: Unread | None = None
) -> Literal["running", "draining", "fenced"]:
    """Tell the warehouse that the driver of this epoch lives, and learn what it is to do.

    Args:
        connection: to the warehouse.
        pipeline: its name.
        epoch: the driver's.
        unread: what it has seen of its source and not begun to load; None before its first look.

    Returns:
        "running" or "draining", as the operator wants it; "fenced" if a newer driver has taken over, or this
        one has been declared finished: it must stop.
    """
    seen: tuple[object, ...] = (None,) * 5
    if unread is not None:
        seen = unread.age, unread.files, unread.unread_partitions, unread.bytes, unread.landed_at
    partitions = json.dumps([asdict(each) for each in unread.partitions]) if unread and unread.partitions else None
    with connection, connection.cursor() as cursor:
        cursor.execute(
            """
            SET LOCAL synchronous_commit TO off;  -- the next heartbeat tells it again
            UPDATE freshet.driver SET heartbeat_at = clock_timestamp(),
                looked_at = clock_timestamp() - %s::interval, unread_files = %s, unread_partitions = %s,
                unread_bytes = %s, unread_since = %s, partitions = %s
            FROM freshet.pipeline
            WHERE driver.pipeline = %s AND driver.epoch = %s AND driver.state = 'running'
                AND pipeline.name = driver.pipeline AND pipeline.epoch = driver.epoch
            RETURNING pipeline.desired_state
            """,
            [*seen, partitions, pipeline, epoch],
        )
        row = cursor.fetchone()
    return "fenced" if row is None else row[0]


def block(connection: extensions.connection, pipeline: str, epoch: int, reason: str) -> None:
    """Tell the warehouse that the driver of this epoch can't go on, but is alive and keeps trying.

    The status shows the pipeline as blocked, with the newest reason and the time of the first one. Blocking again
    changes the reason alone; a driver that has ended, or was fenced, blocks nothing.

    Args:
        connection: the driver's.
        pipeline: its name.
        epoch: the driver's epoch.
        reason: what is in the way and what to do about it, for an operator.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "UPDATE freshet.driver SET blocked_by = %s, blocked_since = coalesce(blocked_since, clock_timestamp()) "
            "WHERE pipeline = %s AND epoch = %s AND state = 'running'",
            [reason, pipeline, epoch],
        )


def unblock(connection: extensions.connection, pipeline: str, epoch: int) -> None:
    """Tell the warehouse that the driver of this epoch goes on again."""
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "UPDATE freshet.driver SET blocked_by = NULL, blocked_since = NULL "
            "WHERE pipeline = %s AND epoch = %s AND blocked_by IS NOT NULL",
            [pipeline, epoch],
        )


def finish(
    connection: extensions.connection, pipeline: str, epoch: int, state: EndState, error: str | None = None
) -> None:
    """Record how the driver of this epoch ended. A driver that was fenced meanwhile stays fenced."""
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "UPDATE freshet.driver SET state = %s, error = %s, stopped_at = clock_timestamp() "
            "WHERE pipeline = %s AND epoch = %s AND state = 'running'",
            [state, error, pipeline, epoch],
        )


def note_end(connection: extensions.connection, pipeline: str, epoch: int, error: str, restart: Restart | None) -> bool:
    """Record that the driver of this epoch has ended, as its watcher has found.

    Should it live after all, its next heartbeat tells it to end.

    Args:
        connection: to the warehouse.
        pipeline: its name.
        epoch: the driver's.
        error: why it counts as ended; what it has said itself stands.
        restart: the attempt to bring it back; None if there is none.

    Returns:
        False if the driver has stopped as it was to: then nothing was recorded.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE freshet.driver SET
                state = CASE state WHEN 'running' THEN 'failed' ELSE state END,
                stopped_at = coalesce(stopped_at, clock_timestamp()),
                error = coalesce(error, %s),
                restart_number = %s,
                restart_most = %s,
                restart_noted_at = clock_timestamp()
            WHERE pipeline = %s AND epoch = %s AND state <> 'stopped'
            """,
            [error, restart and restart.number, restart and restart.most, pipeline, epoch],
        )
        return cursor.rowcount > 0


def newest_driver(connection: extensions.connection, pipeline: str) -> DriverRecord | None:
    """The driver that took over last, or None if the pipeline never had one."""
    with connection, connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {_RECORD} FROM freshet.driver WHERE pipeline = %s ORDER BY epoch DESC LIMIT 1", [pipeline]
        )
        row = cursor.fetchone()
    return None if row is None else DriverRecord(*row)


def driver_of(connection: extensions.connection, pipeline: str) -> str:
    """Name of the driver that is to load a registered pipeline: one that it shares, or its own."""
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(definition ->> 'driver', name) FROM freshet.pipeline WHERE name = %s", [pipeline]
        )
        row = cursor.fetchone()
    return row[0] if row else pipeline


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


def ask(connection: extensions.connection, pipeline: str, driver: str | None) -> None:
    """Ask the process of a driver to take a pipeline up, for as long as it has not; None: ask nobody."""
    with connection, connection.cursor() as cursor:
        cursor.execute("UPDATE freshet.pipeline SET asked_driver = %s WHERE name = %s", [driver, pipeline])


def asked_driver(connection: extensions.connection, pipeline: str) -> str | None:
    """The driver that is asked to take the pipeline up; None if none is."""
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT asked_driver FROM freshet.pipeline WHERE name = %s", [pipeline])
        row = cursor.fetchone()
    return row[0] if row else None


def asked_pipelines(connection: extensions.connection, driver: str) -> list[str]:
    """The pipelines that a driver is asked to take up."""
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT name FROM freshet.pipeline WHERE asked_driver = %s ORDER BY name", [driver])
        return [name for (name,) in cursor.fetchall()]


@contextmanager
def launch_lock(connection: extensions.connection, driver: str) -> Iterator[None]:
    """Callers on all hosts take turns: who launches a driver or asks it, and it itself when it ends."""
    lock_launch(connection, driver)
    try:
        yield
    finally:
        unlock_launch(connection, driver)


def lock_launch(connection: extensions.connection, driver: str) -> None:
    """As `launch_lock`, until it is unlocked or the connection ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(hashtext(%s), hashtext(%s))", ["freshet.launch", driver])


def unlock_launch(connection: extensions.connection, driver: str) -> None:
    """Let the next one do so."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock(hashtext(%s), hashtext(%s))", ["freshet.launch", driver])


def request_state(connection: extensions.connection, pipeline: str, state: DesiredState) -> None:
    """Tell the pipeline's driver to run, or to drain (finish its batch and stop). Never waits for loaders.

    Raises:
        PipelineDefinitionError: the pipeline is not registered.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute("UPDATE freshet.pipeline SET desired_state = %s WHERE name = %s", [state, pipeline])
        if cursor.rowcount == 0:
            raise PipelineDefinitionError(
                f"Pipeline {pipeline!r} is not registered in this warehouse: nothing to tell."
            )
