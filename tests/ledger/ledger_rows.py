"""Rows of the control schema as tests want them: batches closed a while ago, held tuples, a driver that runs."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from psycopg2 import extensions

from spark_jobs.control import drivers
from spark_jobs.control.registration import register_pipeline
from spark_jobs.ledger.latency import histogram
from spark_jobs.ledger.status.pipeline_status import PipelineStatus

MINUTE = timedelta(minutes=1)


def execute(connection: extensions.connection, statement: str, *arguments: Any) -> Any:
    """Run a statement in a transaction of its own; its first row, if it gives rows."""
    with connection, connection.cursor() as cursor:
        cursor.execute(statement, arguments or None)
        return cursor.fetchone() if cursor.description else None


def register(connection: extensions.connection, name: str = "orders", definition: str = "{}") -> None:
    """Make a pipeline known, with a freshness target of 5 s."""
    register_pipeline(connection, name, timedelta(seconds=5), definition)


def drive(connection: extensions.connection, name: str = "orders") -> int:
    """A driver that has been running for a minute; its epoch."""
    epoch = drivers.take_over(connection, name, log_file=f"/logs/driver-{name}.log")
    execute(
        connection,
        "UPDATE freshet.driver SET started_at = started_at - interval '1 min' WHERE pipeline = %s",
        name,
    )
    drivers.heartbeat(connection, name, epoch)
    return epoch


def latencies(*milliseconds: float) -> list[int]:
    """Histogram of these latencies."""
    counts: list[int] = histogram((np.array(milliseconds) * 1000).astype(np.int64)).tolist()
    return counts


def add_batch(
    connection: extensions.connection,
    *,
    age: timedelta = timedelta(),
    pipeline: str = "orders",
    state: str = "committed",
    latencies_ms: tuple[float, ...] = (),
    arrival_ms: tuple[float, ...] | None = None,
    statistics: dict[str, Any] | None = None,
    **counts: int,
) -> int:
    """A batch that was closed that long ago and lasted a second; its number."""
    values = {name: counts.get(name, 0) for name in ("facts", "shed", "unmatched", "rejected", "duplicates")}
    row = execute(
        connection,
        """
        INSERT INTO freshet.batch (pipeline, epoch, state, started_at, closed_at, facts, shed,
            unmatched, rejected, duplicates, event_latency, arrival_latency, statistics)
        VALUES (%s, 1, %s, clock_timestamp() - %s - interval '1 s', clock_timestamp() - %s, %s, %s,
            %s, %s, %s, %s, %s, %s)
        RETURNING batch_no
        """,
        pipeline, state, age, age, *values.values(), latencies(*latencies_ms),
        latencies(*(latencies_ms if arrival_ms is None else arrival_ms)), json.dumps(statistics or {}),
    )  # fmt: skip
    return int(row[0])


def hold(
    connection: extensions.connection,
    event_id: str,
    place: str,
    batch_no: int,
    arrived_at: datetime,
    pipeline: str = "orders",
) -> None:
    """A held tuple."""
    execute(
        connection,
        "INSERT INTO freshet.held_tuple (pipeline, event_id, event_hash, place, fate, reason, payload, "
        "payload_encoding, arrived_at, batch_no) VALUES (%s, %s, 0, %s, %s, 'r', '{}', 'json', %s, %s)",
        pipeline, event_id, place, place, arrived_at, batch_no,
    )  # fmt: skip


def add_run(
    connection: extensions.connection, *, state: str = "finished", age: timedelta = MINUTE, **counts: int
) -> int:
    """A reprocessing run of the pipeline orders that began that long ago; its number."""
    names = "".join(f", {name}" for name in counts)
    row = execute(
        connection,
        f"""
        INSERT INTO freshet.reprocessing_run (pipeline, state, algorithm, places, tuple_limit, started_at, closed_at
            {names})
        VALUES ('orders', %s, 'auto', '{{shed}}', 100, clock_timestamp() - %s,
            CASE WHEN %s <> 'running' THEN clock_timestamp() - %s END {", %s" * len(counts)})
        RETURNING batch_no
        """,
        state, age, state, age, *counts.values(),
    )  # fmt: skip
    return int(row[0])


def only(statuses: list[PipelineStatus]) -> PipelineStatus:
    """The status of the only pipeline there is."""
    (status,) = statuses
    return status
