"""The watch behind all triggers, and the page's reader, outlast what goes wrong with the warehouse or with Airflow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any, cast

import pytest
from freshet_airflow import warehouse_watch
from freshet_airflow.freshness_page.warehouse_reader import WarehouseReader
from freshet_airflow.warehouse_watch import watch_warehouse
from psycopg2 import extensions

from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.settings import Home
from tests.ledger.ledger_rows import add_batch, execute, register

_END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'freshet watch'"


@pytest.fixture
def warehouse(home: Home, warehouse_url: str, connection: extensions.connection) -> extensions.connection:
    execute(connection, "TRUNCATE freshet.pipeline, freshet.held_tuple CASCADE")
    register(connection)
    return connection


def restore_older(connection: extensions.connection) -> None:
    """The warehouse as a backup of earlier has it: fewer batches, and their numbers come again."""
    execute(connection, "TRUNCATE freshet.batch RESTART IDENTITY CASCADE")
    add_batch(connection, age=timedelta(hours=1), facts=3)


def test_a_watch_that_lost_its_connection_remembers_nothing(warehouse: extensions.connection) -> None:
    add_batch(warehouse, age=timedelta(hours=1), facts=10)
    add_batch(warehouse, age=timedelta(hours=1), facts=10)

    async def loaded() -> list[int]:
        waiting_work = cast(AsyncGenerator[dict[str, Any]], watch_warehouse(0.05))
        first = await anext(waiting_work)
        restore_older(warehouse)
        execute(warehouse, _END_SESSIONS)
        second = await anext(waiting_work)
        await waiting_work.aclose()
        return [waiting["orders"].status.loaded for waiting in (first, second)]

    assert asyncio.run(loaded()) == [20, 3]


def test_an_unexpected_error_ends_the_watch_for_nobody(
    warehouse: extensions.connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    find, failures = warehouse_watch.warehouse_url_in_trigger, [RuntimeError("API_SERVER_ERROR")]

    async def find_at_the_second_try(connection_id: str) -> str:
        if failures:
            raise failures.pop()
        return await find(connection_id)

    monkeypatch.setattr(warehouse_watch, "warehouse_url_in_trigger", find_at_the_second_try)

    async def first() -> dict[str, Any]:
        waiting_work = cast(AsyncGenerator[dict[str, Any]], watch_warehouse(0.05))
        waiting = await anext(waiting_work)
        await waiting_work.aclose()
        return waiting

    assert "orders" in asyncio.run(first())
    assert "API_SERVER_ERROR" in caplog.text


def test_the_page_begins_anew_after_any_error(warehouse: extensions.connection) -> None:
    reader, connections = WarehouseReader("freshet page"), []

    def fail(connection: extensions.connection) -> None:
        connections.append(connection)
        with connection, connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 20; SELECT pg_sleep(5)")

    with pytest.raises(WarehouseUnavailableError, match="took longer"):
        reader.read(fail)
    assert connections[0].closed
    reader.read(connections.append)
    assert connections[1] is not connections[0]
    reader.close()
