"""One migrated warehouse for all tests that can share one, emptied for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from tests.migrated_database import make_migrated

if TYPE_CHECKING:
    from tests.loading.stream import Stream

RESET = """
    TRUNCATE freshet.pipeline, freshet.held_tuple, freshet.pruned_tuple, freshet.relation_change CASCADE;
    DROP SCHEMA warehouse CASCADE;
    CREATE SCHEMA warehouse;
"""


@pytest.fixture(scope="session")
def loading_warehouse(postgres: EmbeddedPostgres) -> str:
    """URL of one migrated database for all tests of the loader: making one for each would take most of the time."""
    url = make_migrated(postgres, "loading")
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("ALTER DATABASE loading SET synchronous_commit = off")  # no test of these crashes the server
    return url


@pytest.fixture
def clean_warehouse(loading_warehouse: str) -> str:
    """URL of a warehouse with an empty control schema, and no tables of the user's."""
    connection = psycopg2.connect(loading_warehouse)
    with connection, connection.cursor() as cursor:
        cursor.execute(RESET)
    connection.close()
    return loading_warehouse


@pytest.fixture
def connection(clean_warehouse: str) -> Iterator[extensions.connection]:
    """A connection to a warehouse with an empty control schema."""
    with closing(psycopg2.connect(clean_warehouse)) as connection:
        yield connection


@pytest.fixture
def orders(clean_warehouse: str) -> Iterator[Stream]:
    """A pipeline of orders."""
    from tests.loading.stream import Stream  # not where all tests begin: it takes a second to import

    stream = Stream(clean_warehouse)
    yield stream
    stream.close()
