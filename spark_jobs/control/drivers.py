"""A driver's life, as the warehouse has it: it takes a pipeline over, beats, is blocked, and ends.

The Spark driver, the Airflow operators and the `freshet` command share this file: it stays light to import.
Every function is one transaction on the psycopg2 connection that it is given.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from psycopg2 import extensions

from spark_jobs.control.fencing import PATIENCE, lock_against_loaders
from spark_jobs.control.host_processes import process_started_at, this_host
from spark_jobs.errors import PipelineDefinitionError

if TYPE_CHECKING:
    from spark_jobs.ledger.unread import Unread

EndState = Literal["stopped", "failed", "fenced"]


@dataclass(frozen=True)
class Restart:
    """The attempt to bring a driver back that is under way.

    Attributes:
        number: of the attempt, from 1.
        most: attempts that are made.
    """

    number: int
    most: int


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
