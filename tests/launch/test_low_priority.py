"""A batch job that lowers its priority takes Java's threads and Spark's Python workers along."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.driver.java import java_environment
from spark_jobs.launch.low_priority import LOW_PRIORITY
from spark_jobs.settings import PROJECT_ROOT, Home

# Started by spark-submit, whose Java is then this process' parent.
BATCH_JOB = """
import contextlib, json, os, sys
from pathlib import Path
from spark_jobs.launch.low_priority import yield_processor

def nice_values(process):
    values = set()
    for thread in Path(f"/proc/{process}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):  # a thread that has ended since the listing
            values.add(os.getpriority(os.PRIO_PROCESS, int(thread.name)))
    return sorted(values)

before = nice_values(os.getppid())
lowered = yield_processor()
from pyspark.sql import SparkSession
session = SparkSession.builder.getOrCreate()
[worker] = session.sparkContext.parallelize([0], 1).map(lambda _: os.getpriority(os.PRIO_PROCESS, 0)).collect()
told = {"before": before, "lowered": lowered, "own": nice_values(os.getpid()), "worker": worker,
        "java": nice_values(os.getppid())}
Path(sys.argv[1]).write_text(json.dumps(told))
"""

WITHOUT_JAVA = """
import os
from spark_jobs.launch.low_priority import yield_processor
yield_processor()
print(os.getpriority(os.PRIO_PROCESS, 0), os.getpriority(os.PRIO_PROCESS, os.getppid()))
"""


def test_java_and_the_python_workers_yield_with_the_job(tmp_path: Path) -> None:
    job, told = tmp_path / "job.py", tmp_path / "told.json"
    job.write_text(BATCH_JOB)
    environment = {
        **os.environ,
        **java_environment(Home(tmp_path / "home")),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(PROJECT_ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    submit = Path(sys.executable).with_name("spark-submit")
    command = [str(submit), "--master", "local[1]", "--conf", "spark.ui.enabled=false", str(job), str(told)]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    values = json.loads(told.read_text())
    own = os.getpriority(os.PRIO_PROCESS, 0)
    low = max(own, LOW_PRIORITY)
    assert own in values["before"]
    assert values["lowered"] > 10  # Java alone has more threads than that
    assert values["own"] == [low]
    assert values["worker"] == low
    # Threads that Java started since then come from lowered ones.
    assert values["java"] == [low]


def test_a_parent_that_is_no_java_is_left_alone() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    command = [sys.executable, "-c", WITHOUT_JAVA]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=PROJECT_ROOT).stdout
    assert told.split() == [str(max(own, LOW_PRIORITY)), str(own)]


@pytest.mark.parametrize("nice", [0, 5])
def test_a_priority_that_is_lower_already_stays(nice: int) -> None:
    script = (
        f"import os; os.nice(12); from spark_jobs.launch.low_priority import yield_processor; "
        f"yield_processor({nice}); print(os.getpriority(os.PRIO_PROCESS, 0))"
    )
    command = [sys.executable, "-c", script]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=PROJECT_ROOT).stdout
    assert int(told) >= 12
