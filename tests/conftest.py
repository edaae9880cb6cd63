"""Fixtures shared by all tests: a real PostgreSQL server, and an empty warehouse for each test that asks."""

from __future__ import annotations

import itertools
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from spark_jobs.platform.embedded_postgres import EmbeddedPostgres
from spark_jobs.warehouse.migration import migrate

_numbers = itertools.count()


def pytest_unconfigure() -> None:
    """Let pytest have the last word: Spark's gateway logs its end when the interpreter exits."""
    logging.getLogger("py4j").setLevel(logging.ERROR)


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """One PostgreSQL server for the whole session; tests make databases of their own in it.

    Not in pytest's own temporary folder: each session that starts closes that to other users, and where the tests
    run as root the server is another user.
    """
    with (
        tempfile.TemporaryDirectory(prefix="freshet-tests-") as folder,
        EmbeddedPostgres(Path(folder) / "postgres").use() as server,
    ):
        yield server


def _create_database(server: EmbeddedPostgres) -> str:
    name = f"warehouse_{next(_numbers)}"
    connection = psycopg2.connect(server.url())
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    connection.close()
    return server.url(name)


@pytest.fixture(scope="module")
def postgres_database(postgres: EmbeddedPostgres) -> str:
    """URL of a new database without any schema, for all tests of a module."""
    return _create_database(postgres)


@pytest.fixture
def empty_database_url(postgres: EmbeddedPostgres) -> str:
    """URL of a new database without any schema."""
    return _create_database(postgres)


@pytest.fixture
def warehouse_url(postgres: EmbeddedPostgres) -> str:
    """URL of a new database with the warehouse's schema, migrated to the newest version."""
    url = _create_database(postgres)
    migrate(url)
    return url
