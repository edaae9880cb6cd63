"""A worker loads for all pipelines of its driver through one connection, which says for which of them it is used."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import psycopg2

from spark_jobs.control.fencing import session_name
from spark_jobs.loading.loader import WorkerSession, session_of


def session(url: str, pipeline: str, epoch: int = 1) -> WorkerSession:
    return session_of(url, pipeline, epoch, session_name("load", pipeline), timedelta(seconds=5))


def shown(session: WorkerSession) -> tuple[int, str]:
    """The server's process, and whose loader it shows."""
    connection = session.connection()
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT pid, application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()")
        [row] = cursor.fetchall()
    return row


def test_sessions_of_a_thread_share_a_connection_that_bears_the_name_of_its_user(postgres_database: str) -> None:
    sales, returns = session(postgres_database, "sales"), session(postgres_database, "returns")
    process, name = shown(sales)
    assert name == "freshet load sales"
    assert shown(returns) == (process, "freshet load returns")
    assert shown(session(postgres_database, "sales", epoch=2)) == (process, "freshet load sales")


def test_a_connection_that_was_lost_in_one_pipeline_s_hands_is_made_anew_for_the_other(postgres_database: str) -> None:
    sales, returns = session(postgres_database, "sales"), session(postgres_database, "returns")
    process, _ = shown(sales)
    with suppress(psycopg2.OperationalError), sales.connection().cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert sales.is_lost
    again, name = shown(returns)
    assert again != process
    assert name == "freshet load returns"
