"""What spark-submit was told counts: the master of Airflow's connection, and settings of the cluster's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.driver.java import java_environment
from spark_jobs.settings import PROJECT_ROOT, Home

JOB = """
import sys
from pathlib import Path
from spark_jobs.driver.session import join_context
from spark_jobs.settings import Home
context = join_context("settings", Home(Path(sys.argv[1])))
print("master", context.master)
print("reuse", context.getConf().get("spark.python.worker.reuse"))
"""


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--master", "local[1,3]", "--conf", "spark.python.worker.reuse=false"], "local[1,3] false"),
        (None, "local[*,4] true"),
    ],
)
def test_settings_of_spark_submit_go_before_our_own(tmp_path: Path, options: list[str] | None, told: str) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB)
    home = Home(tmp_path / "home")
    environment = {
        **os.environ,
        **java_environment(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(PROJECT_ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    submit = Path(sys.executable).with_name("spark-submit")
    launcher = [sys.executable] if options is None else [str(submit), *options]
    finished = subprocess.run(
        [*launcher, str(job), str(home.root)], env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    found = dict(line.split() for line in finished.stdout.splitlines() if line.startswith(("master ", "reuse ")))
    assert f"{found['master']} {found['reuse']}" == told
