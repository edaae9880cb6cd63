"""What operators and launchers want of drivers: to take a pipeline up, to run, to drain; and taking turns at that.

Every function but the locks is one transaction on the psycopg2 connection that it is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from psycopg2 import extensions

from spark_jobs.errors import PipelineDefinitionError

DesiredState = Literal["running", "draining"]


def driver_of(connection: extensions.connection, pipeline: str) -> str:
    """Name of the driver that is to load a registered pipeline: one that it shares, or its own."""
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(definition ->> 'driver', name) FROM freshet.pipeline WHERE name = %s", [pipeline]
        )
        row = cursor.fetchone()
    return row[0] if row else pipeline


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
