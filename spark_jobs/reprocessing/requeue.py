"""Gives rejected tuples a new try: what refused them, such as a table that lacked a partition, has been fixed."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from psycopg2 import extensions

from spark_jobs.definition.fates import REJECTED, REQUEUED, listed, named
from spark_jobs.reprocessing.held_tuples import HAS_EVENT, SETTLED, WAITS_TO_BE_JOINED
from spark_jobs.reprocessing.request import NAMED

_REJECTED = f"""
    pipeline = %(pipeline)s AND place = '{REJECTED.place}'
    AND (%(since)s::timestamptz IS NULL OR arrived_at >= %(since)s::timestamptz)
    AND (%(until)s::timestamptz IS NULL OR arrived_at < %(until)s::timestamptz)
    AND {SETTLED}
"""
_NAMED = f"{_REJECTED} AND {NAMED}"
_WORTH_IT = f"({HAS_EVENT} AND fate IN ({listed(named(requeue=True))}))"
# The ledger knows it as a run that was over at once, and made shed tuples of rejected ones. They are held as such from
# now on: retention must not take them before their new try because they were rejected long ago.
_REQUEUE = f"""
    WITH requeued AS (
        UPDATE freshet.held_tuple SET place = '{REQUEUED.place}', fate = '{REQUEUED}',
            reason = concat('requeued; it was rejected before: ', reason), held_at = clock_timestamp(), relation = NULL,
            attempts = 0, tried_at = NULL, tried_xmin = NULL, retry_at = NULL
        WHERE {_NAMED} AND {_WORTH_IT} RETURNING 1
    ), counted AS (SELECT count(*) AS tuples FROM requeued)
    INSERT INTO freshet.reprocessing_run (pipeline, state, airflow_run, algorithm, places, arrived_from, arrived_until,
        tuple_limit, closed_at, due, taken, {REQUEUED.place}, {REJECTED.place}, statistics)
    SELECT %(pipeline)s, 'finished', %(airflow_run)s, 'requeue', '{{{REJECTED.place}}}', %(since)s, %(until)s, tuples,
        clock_timestamp(), tuples, tuples, tuples, -tuples,
        jsonb_strip_nulls(jsonb_build_object('by', %(by)s, 'reason', %(reason)s))
    FROM counted WHERE tuples > 0 RETURNING taken
"""


class Requeued(NamedTuple):
    """What became of the rejected tuples that were asked for.

    Attributes:
        tuples: how many wait to be reprocessed now.
        hopeless: how many stay rejected: records of one of several streams.
        unjoined: how many stay rejected until reprocessing joins them, which it does without being asked for.
    """

    tuples: int
    hopeless: int
    unjoined: int = 0


def requeue(
    connection: extensions.connection,
    pipeline: str,
    reason: str,
    since: datetime | None = None,
    until: datetime | None = None,
    text: str = "",
    airflow_run: str | None = None,
    by: str | None = None,
) -> Requeued:
    """Make rejected tuples due for the next reprocessing, as if they had been shed and never tried.

    Records that could not be read are read again, by the schema as it is then. What is rejected again has the reason of
    the new try. Doing it again changes nothing more.

    Args:
        connection: to the warehouse; this is one transaction on it.
        pipeline: its name.
        reason: only tuples whose reason contains this text.
        since: only tuples that arrived then or later.
        until: only tuples that arrived before.
        text: only tuples whose record contains this text.
        airflow_run: id of the DAG run that asks; None without Airflow.
        by: who asks, as is noted.
    """
    arguments = {
        "pipeline": pipeline,
        "reason": reason,
        "since": since,
        "until": until,
        "text": text,
        "airflow_run": airflow_run,
        "by": by,
    }
    with connection, connection.cursor() as cursor:
        cursor.execute(_REQUEUE, arguments)
        row = cursor.fetchone()
        cursor.execute(
            f"SELECT count(*), count(*) FILTER (WHERE {WAITS_TO_BE_JOINED}) FROM freshet.held_tuple "
            f"WHERE {_NAMED} AND NOT ({_WORTH_IT})",
            arguments,
        )
        [(left, unjoined)] = cursor.fetchall()
    return Requeued(0 if row is None else row[0], left - unjoined, unjoined)
