"""Fixtures shared by all tests: a real PostgreSQL server, and an empty warehouse for each test that asks."""

from __future__ import annotations

import itertools
import logging
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
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


@contextmanager
def _database(server: EmbeddedPostgres) -> Iterator[str]:
    """URL of a new database; dropped with the sessions that workers and drivers still have in it."""
    name = f"warehouse_{next(_numbers)}"
    with closing(psycopg2.connect(server.url())) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(f"CREATE DATABASE {name}")
        yield server.url(name)
        cursor.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def postgres_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """URL of a new database without any schema, for all tests of a module."""
    with _database(postgres) as url:
        yield url


@pytest.fixture
def empty_database_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """URL of a new database without any schema."""
    with _database(postgres) as url:
        yield url


@pytest.fixture
def warehouse_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """URL of a new database with the warehouse's schema, migrated to the newest version."""
    with _database(postgres) as url:
        migrate(url)
        yield url
