"""Fixtures of validation's tests: one warehouse for all of them, emptied for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from tests.migrated_database import make_migrated
from tests.validation.sales import Sales


@pytest.fixture(scope="session")
def validation_warehouse(postgres: EmbeddedPostgres) -> str:
    """URL of one migrated database for all tests of validation: making one for each would take most of the time."""
    return make_migrated(postgres, "validation")


@pytest.fixture
def sales(validation_warehouse: str, tmp_path: Path) -> Iterator[Sales]:
    """A pipeline of sales that has loaded nothing yet."""
    pipeline = Sales(validation_warehouse, tmp_path)
    yield pipeline
    pipeline.close()
