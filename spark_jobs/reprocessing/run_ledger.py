"""The rows of freshet.reprocessing_run: opened, kept alive, advanced by what is settled, closed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

import psycopg2.extras
from psycopg2 import extensions

from spark_jobs.control.registration import lock_in_use
from spark_jobs.control.work_under_way import DRIVER_DIED, RUN, RUN_LIVES, try_lock
from spark_jobs.definition.fates import PLACES, Place
from spark_jobs.errors import WriterFencedError
from spark_jobs.reprocessing.request import ReprocessingRequest

EndState = Literal["finished", "yielded", "failed", "abandoned"]


class OpenedRun(NamedTuple):
    """A run that was just opened.

    Attributes:
        batch_no: its number, larger than that of every batch and run before it.
        started_at: by the warehouse's clock.
    """

    batch_no: int
    started_at: datetime


class BalanceChange(NamedTuple):
    """What a settling transaction changes of the balance: facts up and shed down, for example.

    Attributes:
        taken: tuples that the run is done with by it.
    """

    taken: int = 0
    facts: int = 0
    shed: int = 0
    unmatched: int = 0
    rejected: int = 0

    @classmethod
    def of(cls, left: Counter[Place], facts: int, came: Counter[Place]) -> BalanceChange:
        """Of tuples that have left these places, and came to these, or to the facts."""
        return cls(left.total(), facts, *(came[place] - left[place] for place in PLACES))


class Progress(NamedTuple):
    """How far a run is: tuples that it found due so far, that it is done with, and that it made facts of."""

    due: int
    taken: int
    facts: int


def abandon_dead(cursor: extensions.cursor, pipeline: str | None = None) -> int:
    """Mark the runs as abandoned whose drivers have died, after which they can't write any more; how many there were.

    Args:
        cursor: to the warehouse.
        pipeline: the runs of this one; None: of all.
    """
    cursor.execute(
        "UPDATE freshet.reprocessing_run SET state = 'abandoned', closed_at = clock_timestamp(), error = %s "
        f"WHERE pipeline = coalesce(%s, pipeline) AND state = 'running' AND NOT {RUN_LIVES}",
        [DRIVER_DIED, pipeline],
    )
    return cursor.rowcount


def open_run(connection: extensions.connection, pipeline: str, request: ReprocessingRequest) -> OpenedRun:
    """Open a run, and mark those as abandoned whose drivers have died.

    Args:
        connection: the driver's; this is one transaction on it.
        pipeline: a registered pipeline.
        request: what the run is asked to do.

    Raises:
        PipelineDefinitionError: the pipeline was retired.
    """
    with connection, connection.cursor() as cursor:
        lock_in_use(cursor, pipeline)  # first, as retiring it does
        abandon_dead(cursor, pipeline)
        cursor.execute(
            "INSERT INTO freshet.reprocessing_run "
            "(pipeline, airflow_run, algorithm, places, arrived_from, arrived_until, tuple_limit, statistics) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s, jsonb_strip_nulls(jsonb_build_object('by', %s))) "
            "RETURNING batch_no, started_at",
            [
                pipeline,
                request.airflow_run,
                request.algorithm,
                list(request.places),
                request.arrived_from,
                request.arrived_until,
                request.limit,
                request.by,
            ],
        )
        row = cursor.fetchone()
    assert row is not None
    return OpenedRun(*row)


def heartbeat(connection: extensions.connection, batch_no: int) -> Literal["running", "fenced"]:
    """Tell the warehouse that the run goes on; "fenced" if it was marked as abandoned.

    As long as the connection's session lasts, others see that the run lives.
    """
    with connection, connection.cursor() as cursor:
        try_lock(cursor, RUN, batch_no)
        cursor.execute(
            "UPDATE freshet.reprocessing_run SET heartbeat_at = clock_timestamp() "
            "WHERE batch_no = %s AND state = 'running'",
            [batch_no],
        )
        return "running" if cursor.rowcount else "fenced"


def note_due(cursor: extensions.cursor, batch_no: int, due: int) -> None:
    """Write down how many tuples there are to be done, those included that are done."""
    cursor.execute("UPDATE freshet.reprocessing_run SET due = %s WHERE batch_no = %s", [due, batch_no])


def advance(
    cursor: extensions.cursor, batch_no: int, changes: BalanceChange, event_latency: list[int] | None = None
) -> None:
    """Add what a transaction has settled to the run; the last thing that the transaction does.

    From here to the commit no other transaction of the run gets further, and none can mark the run as abandoned.

    Args:
        cursor: in that transaction.
        batch_no: the run.
        changes: of the balance.
        event_latency: histogram of event time to commit, of the facts.

    Raises:
        WriterFencedError: the run is closed. The transaction must not be committed.
    """
    cursor.execute(
        f"""
        UPDATE freshet.reprocessing_run AS r SET heartbeat_at = clock_timestamp(), taken = taken + %s,
            facts = facts + %s, {", ".join(f"{place} = {place} + %s" for place in PLACES)},
            event_latency = CASE WHEN %s::bigint[] IS NULL THEN event_latency ELSE (
                SELECT array_agg(coalesce(former, 0) + coalesce(added, 0) ORDER BY bucket)
                FROM ROWS FROM (unnest(r.event_latency), unnest(%s::bigint[]))
                    WITH ORDINALITY AS h(former, added, bucket)
            ) END
        WHERE batch_no = %s AND state = 'running'
        """,
        [changes.taken, changes.facts, *(getattr(changes, p) for p in PLACES), event_latency, event_latency, batch_no],
    )
    if not cursor.rowcount:
        raise WriterFencedError(
            f"Reprocessing run {batch_no} is closed: it was presumed dead, or ended by its driver. "
            f"Nothing more is written here; the next run goes on with what is left."
        )


def close_run(
    connection: extensions.connection,
    batch_no: int,
    state: EndState,
    statistics: Mapping[str, Any],
    error: str | None = None,
) -> bool:
    """Close a run; false if it was closed already, as abandoned.

    Args:
        connection: the driver's; this is one transaction on it.
        batch_no: the run.
        state: how it ended.
        statistics: figures of the run, as JSON takes them.
        error: why it failed or ended early; None if it did not.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "UPDATE freshet.reprocessing_run "
            "SET state = %s, closed_at = clock_timestamp(), statistics = statistics || %s, error = %s "
            "WHERE batch_no = %s AND state = 'running'",
            [state, psycopg2.extras.Json(dict(statistics), dumps=json.dumps), error, batch_no],
        )
        return bool(cursor.rowcount)


def progress(connection: extensions.connection, batch_no: int) -> Progress:
    """How far a run is."""
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT due, taken, facts FROM freshet.reprocessing_run WHERE batch_no = %s", [batch_no])
        row = cursor.fetchone()
    assert row is not None
    return Progress(*row)
