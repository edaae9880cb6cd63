"""The watch over relations: a step that fails keeps no other from being taken; nothing is left open at the end."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.lookup.hot_keys.relation_watch import RelationWatch, SeparateSteps
from spark_jobs.lookup.relation.reading_connection import ReadingConnection
from spark_jobs.warehouse.connection_pool import ConnectionPool


@pytest.fixture
def connection(warehouse_url: str) -> Iterator[extensions.connection]:
    with closing(psycopg2.connect(warehouse_url)) as connection:
        yield connection


def test_a_refused_query_is_told_once_and_the_next_step_can_use_the_connection(
    connection: extensions.connection, caplog: pytest.LogCaptureFixture
) -> None:
    steps = SeparateSteps("watch")
    results: list[int] = []

    def read(column: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {column}")
            results.append(cursor.fetchall()[0][0])

    with caplog.at_level(logging.INFO, "spark_jobs.lookup.hot_keys.relation_watch"):
        for number in range(3):
            steps.take("dropped", connection, partial(read, f"dropped, {number}"))
            steps.take("other", connection, partial(read, "1"))
        assert results == [1, 1, 1]
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        steps.take("dropped", connection, partial(read, "gone"))
        steps.take("dropped", connection, partial(read, "2"))
        steps.take("dropped", connection, partial(read, "dropped"))
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR", "INFO", "ERROR"]


def test_a_warehouse_that_is_away_ends_the_steps(connection: extensions.connection) -> None:
    steps = SeparateSteps("watch")

    def be_ended() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    def give_up() -> None:
        raise WarehouseUnavailableError("away")

    with pytest.raises(WarehouseUnavailableError):
        steps.take("other connection", connection, give_up)
    with pytest.raises(psycopg2.Error):
        steps.take("this connection", connection, be_ended)


def test_a_watch_that_ends_gives_up_the_connection_through_which_hot_tuples_are_read(warehouse_url: str) -> None:
    reading, opened = ReadingConnection(warehouse_url), list[extensions.connection]()
    reading.run(opened.append)
    watch = RelationWatch(ConnectionPool(warehouse_url, "watch"), "orders", [], reading, ThreadPoolExecutor(1))
    watch.start_as(1)
    assert not opened[0].closed, "it has been used a moment ago"
    watch.stop()
    assert opened[0].closed
