"""What has happened to a pipeline: starts and ends of drivers, runs, alerts, rebuilds, changes of its definition."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from psycopg2 import extensions

from spark_jobs.control.work_under_way import RUN_STATE, VALIDATION_RESULT

EventKind = Literal[
    "start", "restart", "end", "reprocessing", "requeue", "forget", "validation", "alert", "rebuild", "definition"
]
_MOST_OF_A_KIND = 50
# A driver that follows one which had to be replaced is a restart: that one failed, fell silent, or was pushed aside.
_EVENTS = (
    """
    SELECT CASE WHEN former IN ('failed', 'fenced') THEN 'restart' ELSE 'start' END AS kind, started_at AS began_at,
        NULL::timestamptz AS ended_at, NULL AS result, 'driver ' || epoch || ' on ' || host AS detail, NULL AS error,
        NULL AS asked_by, NULL AS airflow_run
    FROM (SELECT *, lag(state) OVER (ORDER BY epoch) AS former FROM freshet.driver
          WHERE pipeline = %(pipeline)s ORDER BY epoch DESC LIMIT %(most)s + 1) AS begun
    """,
    """
    SELECT 'end', stopped_at, NULL::timestamptz, state, 'driver ' || epoch || ' on ' || host, error, NULL, NULL
    FROM freshet.driver WHERE pipeline = %(pipeline)s AND stopped_at IS NOT NULL
    """,
    f"""
    SELECT CASE WHEN algorithm IN ('requeue', 'forget') THEN algorithm ELSE 'reprocessing' END, started_at, closed_at,
        {RUN_STATE}, CASE algorithm
            WHEN 'forget' THEN format('%%s %%s tuples forgotten', taken, array_to_string(places, ', '))
            WHEN 'requeue' THEN format('%%s rejected tuples get a new try', taken)
            ELSE format('%%s of %%s tuples tried, %%s became facts', taken, due, facts) END,
        error, statistics ->> 'by', airflow_run
    FROM freshet.reprocessing_run WHERE pipeline = %(pipeline)s
    """,
    f"""
    SELECT 'validation', started_at, closed_at, {VALIDATION_RESULT}, scope, error, NULL, airflow_run
    FROM freshet.validation WHERE pipeline = %(pipeline)s
    """,
    """
    SELECT 'alert', began_at, recovered_at, CASE WHEN recovered_at IS NULL THEN 'open' ELSE 'over' END, reason, NULL,
        NULL, NULL
    FROM freshet.freshness_episode WHERE pipeline = %(pipeline)s
    """,
    """
    SELECT kind, happened_at, NULL::timestamptz, NULL, detail, NULL, NULL, NULL
    FROM freshet.pipeline_event WHERE pipeline = %(pipeline)s
    """,
)


@dataclass(frozen=True)
class PipelineEvent:
    """Something that has happened.

    Attributes:
        kind: start or restart (a driver took over; after one that had failed), end (of a driver), reprocessing,
            requeue (of rejected tuples), forget (of held ones), validation, alert (the target was missed), rebuild (of
            a cache), definition (changed).
        began_at: when.
        ended_at: when it was over; None for what takes no time, or is not over.
        result: how it ended or stands; None for what has no result.
        detail: what it was, in words.
        error: what went wrong.
        asked_by: who asked for it, where that is known.
        airflow_run: id of the DAG run that did it.
    """

    kind: EventKind
    began_at: datetime
    ended_at: datetime | None
    result: str | None
    detail: str | None
    error: str | None
    asked_by: str | None
    airflow_run: str | None


def read_events(connection: extensions.connection, pipeline: str) -> list[PipelineEvent]:
    """The newest events of a pipeline, the newest first; at most fifty of each table.

    Args:
        connection: to the warehouse; this is one transaction on it.
        pipeline: its name; of one that is not known nothing has happened.
    """
    newest = " UNION ALL ".join(f"(SELECT * FROM ({each}) AS happened (kind, began_at, ended_at, result, detail, "
                                "error, asked_by, airflow_run) ORDER BY began_at DESC LIMIT %(most)s)"
                                for each in _EVENTS)  # fmt: skip
    with connection, connection.cursor() as cursor:
        cursor.execute(f"{newest} ORDER BY began_at DESC", {"pipeline": pipeline, "most": _MOST_OF_A_KIND})
        return [PipelineEvent(*row) for row in cursor.fetchall()]
