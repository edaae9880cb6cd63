"""What a driver's start waits for, and what it leaves out."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from spark_jobs.settings import PROJECT_ROOT

HEAVY = ["numba", "numpy", "pandas", "psycopg2", "pyarrow", "pydantic", "scipy"]
WITHOUT = "from spark_jobs.optional_imports import do_without_pandas_and_scipy as without; without()"


def imported(code: str) -> set[str]:
    """Modules that a new process has imported after it has run this."""
    told = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport json, sys\nprint(json.dumps(list(sys.modules)))"],
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(told.stdout.splitlines()[-1]))


def test_spark_is_started_before_what_the_driver_and_its_tasks_import() -> None:
    modules = imported("from spark_jobs import stream_load")
    assert "spark_jobs.driver.session" in modules
    assert not modules & {*HEAVY, "pyspark", "spark_jobs.definition", "spark_jobs.driver.stream_job"}


@pytest.mark.parametrize(
    ("imports", "first_use"),
    [
        ("from spark_jobs.stages import worker_daemon", "worker_daemon.load_kernels()"),
        ("from spark_jobs.driver import batch_run, stream_job", "batch_run.warm_up_learning()"),
    ],
    ids=["worker", "driver"],
)
def test_neither_driver_nor_workers_import_what_libraries_can_do_without(imports: str, first_use: str) -> None:
    modules = imported(f"{imports}\n{WITHOUT}\n{first_use}")
    assert {"numba", "pyarrow"} <= modules
    assert not modules & {"pandas", "scipy.linalg"}


def test_a_library_that_was_left_out_at_the_start_can_be_imported_later() -> None:
    assert {"pandas", "scipy.linalg"} <= imported(f"{WITHOUT}\nimport pandas, scipy.linalg")
