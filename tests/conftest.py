"""Fixtures shared by all tests: a real PostgreSQL server, and an empty warehouse for each test that asks."""

from __future__ import annotations

import itertools
import logging
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from hypothesis import settings

from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from tests.distribution import FolderScheduling, order, scope
from tests.migrated_database import make_migrated
from tests.tiers import TIERS, tier
from tests.waiting import wait_for

pytest_plugins = ["tests.loading_warehouse", "tests.kafka_broker"]

# Machines differ, and are busy at times: no test fails for its duration.
settings.register_profile("freshet", deadline=None)
settings.load_profile("freshet")

_numbers = itertools.count()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Three processes for the whole suite, which wait much of the time. What is asked for by name runs in this."""
    return 3 if config.args_source is pytest.Config.ArgsSource.TESTPATHS else 0


def pytest_configure(config: pytest.Config) -> None:
    """Leave out slow tests, and the tiers where none is named; give processes of xdist a main file.

    pyspark takes a process without one for its doctests, and ends it.
    """
    if not config.option.markexpr:
        whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
        config.option.markexpr = " and ".join(f"not {mark}" for mark in ("slow", *(TIERS if whole else ())))
    if hasattr(config, "workerinput"):
        sys.modules["__main__"].__file__ = str(Path(pytest.__file__).with_name("__main__.py"))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FolderScheduling:
    """Which test runs in which of them."""
    return FolderScheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the mark of its tier; begin with what takes longest."""
    for item in items:
        mark = tier(item.nodeid)
        if mark is not None:
            item.add_marker(mark)
    places = order(scope(item.nodeid) for item in items)
    items.sort(key=lambda item: places[scope(item.nodeid)])


@pytest.hookimpl(tryfirst=True)
def pytest_keyboard_interrupt() -> None:
    """Let the fixtures stop what they have started: a process may be sent several signals for one Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def pytest_unconfigure() -> None:
    """Let pytest have the last word: Spark's gateway logs its end when the interpreter exits."""
    logging.getLogger("py4j").setLevel(logging.ERROR)


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """One PostgreSQL server for the whole session; tests make databases of their own in it."""
    with (
        tempfile.TemporaryDirectory(prefix="freshet-tests-") as folder,
        EmbeddedPostgres(Path(folder) / "postgres").use() as server,
        closing(psycopg2.connect(server.url())) as connection,
        connection.cursor() as cursor,
    ):
        connection.autocommit = True
        # Its processes may be killed, the machine is not: what the kernel has taken is safe. Dropping a database
        # would wait for the disk, for seconds where that is slow.
        cursor.execute("ALTER SYSTEM SET fsync = off")
        cursor.execute("SELECT pg_reload_conf()")
        yield server


def _make_empty(server: EmbeddedPostgres, name: str) -> str:
    with closing(psycopg2.connect(server.url())) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(f"CREATE DATABASE {name}")
    return server.url(name)


@contextmanager
def _database(server: EmbeddedPostgres, make: Callable[[EmbeddedPostgres, str], str] = _make_empty) -> Iterator[str]:
    """URL of a new database; dropped with the sessions that workers and drivers still have in it."""
    name = f"warehouse_{next(_numbers)}"
    yield make(server, name)
    with closing(psycopg2.connect(server.url())) as connection, connection.cursor() as cursor:
        connection.autocommit = True

        def deserted() -> bool:
            cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            return cursor.rowcount == 0

        wait_for(deserted, f"the sessions of {name} to end")  # DROP itself looks every tenth of a second only
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def postgres_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """URL of a new database without any schema, for all tests of a module."""
    with _database(postgres) as url:
        yield url


@pytest.fixture(scope="module")
def migrated_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """URL of a new database with the warehouse's schema, for all tests of a module."""
    with _database(postgres, make_migrated) as url:
        yield url


@pytest.fixture
def empty_database_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """URL of a new database without any schema."""
    with _database(postgres) as url:
        yield url


@pytest.fixture
def warehouse_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """URL of a new database with the warehouse's schema, migrated to the newest version."""
    with _database(postgres, make_migrated) as url:
        yield url
