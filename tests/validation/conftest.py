"""Fixtures of validation's tests: one warehouse for all of them, emptied for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from spark_jobs.warehouse.migration import migrate
from tests.validation.sales import Sales


@pytest.fixture(scope="session")
def validation_warehouse(postgres: EmbeddedPostgres) -> str:
    """URL of one migrated database for all tests of validation: making one for each would take most of the time."""
    connection = psycopg2.connect(postgres.url())
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE validation")
    connection.close()
    migrate(postgres.url("validation"))
    return postgres.url("validation")


@pytest.fixture
def sales(validation_warehouse: str, tmp_path: Path) -> Iterator[Sales]:
    """A pipeline of sales that has loaded nothing yet."""
    pipeline = Sales(validation_warehouse, tmp_path)
    yield pipeline
    pipeline.close()
