"""An Airflow of the tests' own: its home is set before Airflow is imported, its metadata lie in SQLite."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.launch.detached_driver import end_drivers
from spark_jobs.settings import PROJECT_ROOT, Home

_AIRFLOW_HOME = tempfile.mkdtemp(prefix="freshet-airflow-")
_OWNER = os.getpid()


@atexit.register
def _remove_airflow_home() -> None:
    if os.getpid() == _OWNER:  # a forked child of any test ends here too
        shutil.rmtree(_AIRFLOW_HOME, ignore_errors=True)


os.environ.update(
    {
        "AIRFLOW_HOME": _AIRFLOW_HOME,
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT_ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT_ROOT / "plugins"),
        "AIRFLOW__CORE__DAG_IGNORE_FILE_SYNTAX": "regexp",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
    }
)

import airflow  # noqa: E402, F401  puts the plugins folder on Python's path

STAND_IN = Path(__file__).with_name("stand_in_driver.py")


@pytest.fixture
def home(tmp_path: Path, warehouse_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """An installation that Airflow's tasks find in their environment; its drivers are ended after the test."""
    installation = Home(tmp_path)
    monkeypatch.setenv("FRESHET_HOME", str(tmp_path))
    monkeypatch.setenv("FRESHET_WAREHOUSE_URL", warehouse_url)
    yield installation
    end_drivers(installation, grace_seconds=0.0)


@pytest.fixture
def connection(warehouse_url: str) -> Iterator[extensions.connection]:
    """A connection to the warehouse, in autocommit mode."""
    with closing(psycopg2.connect(warehouse_url)) as connection:
        connection.autocommit = True
        yield connection


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """Airflow's metadata database."""
    from airflow.utils.db import initdb

    initdb()
