"""A bad day as an operator lives it: burst, shedding, a changed dimension, reprocessing and validation, by Airflow."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.settings import HOME_VARIABLE, WAREHOUSE_URL_VARIABLE


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_burst_of_three_times_the_capacity_is_stood(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, HOME_VARIABLE: str(tmp_path / "home")}
    environment.pop(WAREHOUSE_URL_VARIABLE, None)
    figures = tmp_path / "figures.json"
    command = ["up", "--for", "300s", "--overload", "3x", "--port", str(port), "--figures", str(figures)]
    finished = subprocess.run(
        [sys.executable, "-m", "spark_jobs.cli", *command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(finished.stdout)  # pytest shows it if the test fails
    assert finished.returncode == 0
    told = json.loads(figures.read_text())
    assert told["problems"] == []
    assert sum(span["shed"] for span in told["burst"].values()) > 0
    assert told["operations"]["reprocessed"] > 0
    assert told["operations"]["backlog"] == 0
