"""Gives rejected tuples a new try: what refused them, such as a table that lacked a partition, has been fixed."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from psycopg2 import extensions

from spark_jobs.loading.payload import RECORD_ENCODINGS

# A rejected record that is no tuple of the source, or has no event id, is what it is: no try makes a fact of it.
_RECORDS = ", ".join(f"'{encoding}'" for encoding in RECORD_ENCODINGS)
_HAS_EVENT = f"payload_encoding IN ({_RECORDS}) AND starts_with(event_id, '[')"
# Tuples of an open batch belong to its loaders.
_REJECTED = """
    pipeline = %(pipeline)s AND place = 'rejected'
    AND (%(since)s::timestamptz IS NULL OR arrived_at >= %(since)s::timestamptz)
    AND (%(until)s::timestamptz IS NULL OR arrived_at < %(until)s::timestamptz)
    AND batch_no <> ALL (SELECT batch_no FROM freshet.batch WHERE pipeline = %(pipeline)s AND state = 'started')
"""
_FOR_REASON = f"{_REJECTED} AND strpos(reason, %(reason)s) > 0"
# The ledger knows it as a run that was over at once, and made shed tuples of rejected ones. They are held as such from
# now on: retention must not take them before their new try because they were rejected long ago.
_REQUEUE = f"""
    WITH requeued AS (
        UPDATE freshet.held_tuple SET place = 'shed', reason = concat('requeued; it was rejected before: ', reason),
            held_at = clock_timestamp(), relation = NULL, attempts = 0, tried_at = NULL, tried_xmin = NULL,
            retry_at = NULL
        WHERE {_FOR_REASON} AND {_HAS_EVENT} RETURNING 1
    ), counted AS (SELECT count(*) AS tuples FROM requeued)
    INSERT INTO freshet.reprocessing_run (pipeline, state, airflow_run, algorithm, places, arrived_from, arrived_until,
        tuple_limit, closed_at, due, taken, shed, rejected)
    SELECT %(pipeline)s, 'finished', %(airflow_run)s, 'requeue', '{{rejected}}', %(since)s, %(until)s, tuples,
        clock_timestamp(), tuples, tuples, tuples, -tuples
    FROM counted WHERE tuples > 0 RETURNING taken
"""


class Rejection(NamedTuple):
    """Rejected tuples of one reason, numbers in it left out.

    Attributes:
        reason: of one of them.
        tuples: how many.
        hopeless: how many of them no new try can make facts of.
    """

    reason: str
    tuples: int
    hopeless: int


class Requeued(NamedTuple):
    """What became of the rejected tuples that were asked for.

    Attributes:
        tuples: how many wait to be reprocessed now.
        hopeless: how many stay rejected: records that could not be read, or without an event id.
    """

    tuples: int
    hopeless: int


def rejections(connection: extensions.connection, pipeline: str, since: datetime | None = None) -> list[Rejection]:
    """The reasons for which tuples are rejected, that of the most tuples first.

    Args:
        connection: to the warehouse; this is one transaction on it.
        pipeline: its name.
        since: only tuples that arrived then or later.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute(
            f"SELECT min(reason), count(*), count(*) FILTER (WHERE NOT ({_HAS_EVENT})) FROM freshet.held_tuple "
            f"WHERE {_REJECTED} GROUP BY regexp_replace(reason, '[0-9]+', '', 'g') ORDER BY count(*) DESC, 1",
            {"pipeline": pipeline, "since": since, "until": None},
        )
        return [Rejection(*row) for row in cursor.fetchall()]


def requeue(
    connection: extensions.connection,
    pipeline: str,
    reason: str,
    since: datetime | None = None,
    until: datetime | None = None,
    airflow_run: str | None = None,
) -> Requeued:
    """Make rejected tuples due for the next reprocessing, as if they had been shed and never tried.

    What is rejected again has the reason of the new try. Doing it again changes nothing more.

    Args:
        connection: to the warehouse; this is one transaction on it.
        pipeline: its name.
        reason: only tuples whose reason contains this text.
        since: only tuples that arrived then or later.
        until: only tuples that arrived before.
        airflow_run: id of the DAG run that asks; None without Airflow.
    """
    arguments = {
        "pipeline": pipeline,
        "reason": reason,
        "since": since,
        "until": until,
        "airflow_run": airflow_run,
    }
    with connection, connection.cursor() as cursor:
        cursor.execute(_REQUEUE, arguments)
        row = cursor.fetchone()
        cursor.execute(f"SELECT count(*) FROM freshet.held_tuple WHERE {_FOR_REASON} AND NOT ({_HAS_EVENT})", arguments)
        [(hopeless,)] = cursor.fetchall()
    return Requeued(0 if row is None else row[0], hopeless)
