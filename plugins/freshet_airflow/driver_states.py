"""States of the control schema that only the operators here ask for."""

from __future__ import annotations

from psycopg2 import extensions


def desired_state(connection: extensions.connection, pipeline: str) -> str | None:
    """What the pipeline's driver is to do, running or draining; None if the pipeline is not registered."""
    return _value(connection, "SELECT desired_state FROM freshet.pipeline WHERE name = %s", pipeline)


def state_of_epoch(connection: extensions.connection, pipeline: str, epoch: int) -> str | None:
    """State of the driver with this epoch; None if there is none."""
    return _value(connection, "SELECT state FROM freshet.driver WHERE pipeline = %s AND epoch = %s", pipeline, epoch)


def _value(connection: extensions.connection, query: str, *arguments: object) -> str | None:
    with connection.cursor() as cursor:
        cursor.execute(query, arguments)
        row = cursor.fetchone()
    return row[0] if row else None
