"""`freshet up` as a newcomer runs it: the real Airflow, real drivers, a real stream, and a proof at the end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.control import driver_records
from spark_jobs.control.driver_records import DriverRecord
from spark_jobs.errors import PlatformError
from spark_jobs.local.airflow_api import AirflowApi
from spark_jobs.local.airflow_process import ADMINISTRATOR, administrator_password, api_url, password_file
from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from spark_jobs.local.warehouse_server import DATABASE
from spark_jobs.settings import HOME_VARIABLE, PIPELINES_VARIABLE, PROJECT_ROOT, WAREHOUSE_URL_VARIABLE, Home
from tests.waiting import wait_for

FRESHET = [sys.executable, "-m", "spark_jobs.cli"]
SHIPPED = PROJECT_ROOT / "dags" / "pipelines"
PIPELINES = ("orders", "order_lines", "fulfilment", "auction_bids")
START_SECONDS = 240.0


@dataclass
class Installation:
    """An installation in which `freshet up` runs as a child process."""

    home: Home
    port: int
    environment: dict[str, str]
    process: subprocess.Popen[str]

    def api(self) -> AirflowApi:
        """Airflow's REST API, as soon as it answers."""
        wait_for(password_file(self.home).exists, "the password", START_SECONDS)
        api = AirflowApi(api_url(self.port), ADMINISTRATOR, administrator_password(self.home)[0])
        wait_for(lambda: self._running() and api.heartbeats(), "Airflow", START_SECONDS)
        return api

    def driver(self, pipeline: str) -> DriverRecord:
        """The pipeline's living driver, as soon as there is one."""
        return wait_for(lambda: self._running() and self._living_driver(pipeline), "a driver", START_SECONDS)

    def finish(self) -> int:
        """Wait for the end; the exit status."""
        output, _ = self.process.communicate()
        print(output)  # pytest shows it if the test fails
        return self.process.returncode

    def status(self) -> dict[str, dict[str, object]]:
        """What `freshet status` tells of each pipeline."""
        told = subprocess.run([*FRESHET, "status", "--json"], env=self.environment, stdout=subprocess.PIPE, check=True)
        return {pipeline["name"]: pipeline for pipeline in json.loads(told.stdout)}

    def processes(self) -> list[psutil.Process]:
        """Living processes that belong to the installation."""
        return [
            process
            for process in psutil.process_iter()
            if str(self.home.root) in " ".join([*_command_line(process), _environment(process).get(HOME_VARIABLE, "")])
        ]

    def has_loaded(self, pipeline: str) -> bool:
        """Whether a batch of the pipeline has stored facts."""
        assert self._running()
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT FROM freshet.batch WHERE pipeline = %s AND facts > 0 LIMIT 1", [pipeline])
            return cursor.rowcount > 0

    def _connect(self) -> extensions.connection:
        return psycopg2.connect(EmbeddedPostgres(self.home.postgres).url(DATABASE))

    def _running(self) -> bool:
        assert self.process.poll() is None, self.finish()
        return True

    def _living_driver(self, pipeline: str) -> DriverRecord | None:
        try:
            with closing(self._connect()) as connection:
                newest = driver_records.newest_driver(connection, pipeline)
        except (PlatformError, psycopg2.Error):  # not that far yet
            return None
        return newest if newest and newest.is_alive() else None


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


@pytest.fixture
def installation(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Installation]:
    """`freshet up --for 45s` of the pipelines that ship, in an empty home, with options of the test's own.

    Without options it also has an optional one; only in their own folder the shipped ones are loaded from topics.
    """
    options = getattr(request, "param", [])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = Home(tmp_path / "home")
    pipelines = SHIPPED
    if not options:
        pipelines = tmp_path / "pipelines"
        shutil.copytree(SHIPPED, pipelines)
        shutil.copy(SHIPPED / "optional" / "auction_bids.yaml", pipelines)
    environment = {**os.environ, HOME_VARIABLE: str(home.root), PIPELINES_VARIABLE: str(pipelines)}
    environment.pop(WAREHOUSE_URL_VARIABLE, None)
    process = subprocess.Popen(
        [*FRESHET, "up", "--for", "45s", "--scale", "0.01", "--port", str(port), *options],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    installation = Installation(home, port, environment, process)
    yield installation
    if process.poll() is None:
        process.terminate()
        process.communicate()


@pytest.mark.timeout(600)
def test_a_stream_runs_under_airflow_and_is_proved_at_the_end(installation: Installation) -> None:
    with installation.api() as api:
        watching = {}
        for pipeline in PIPELINES:
            dag_id = f"stream_load__{pipeline}"
            (run,) = wait_for(lambda dag_id=dag_id: _runs(api, dag_id), f"a run of {dag_id}", START_SECONDS)
            watching[pipeline] = (dag_id, run["dag_run_id"])

        # While the stream runs, its DAG run shows as running and waits deferred.
        before = installation.driver("orders")
        dag_id, run_id = watching["orders"]
        wait_for(lambda: _task(api, dag_id, run_id)["state"] == "deferred", "the run to watch", START_SECONDS)
        assert api.run_state(dag_id, run_id) == "running"

        # A cleared task finds the living driver again.
        attempt = _task(api, dag_id, run_id)["try_number"]
        api.clear_task(dag_id, run_id, "run")
        wait_for(lambda: _is_deferred_again(api, dag_id, run_id, attempt), "the cleared task to watch again")
        after = installation.driver("orders")
        assert (after.process_id, after.epoch) == (before.process_id, before.epoch)

    assert installation.finish() == 0
    status = installation.status()
    for pipeline in PIPELINES:
        assert status[pipeline]["state"] == "stopped"
        assert status[pipeline]["loaded"] > 0
        assert status[pipeline]["epoch"] == 1
    assert not installation.processes()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("installation", [["--source", "kafka", "--for", "30s"]], indirect=True)
def test_topics_are_loaded_and_proved_though_broker_and_server_are_killed(installation: Installation) -> None:
    pipelines = ("orders", "order_lines")
    for pipeline in pipelines:
        installation.driver(pipeline)
    wait_for(lambda: installation.has_loaded("orders"), "the first orders", START_SECONDS)
    process = json.loads((installation.home.kafka / "process.json").read_text())
    os.kill(process["process_id"], signal.SIGKILL)
    postmaster = int((installation.home.postgres / "postmaster.pid").read_text().split()[0])
    os.kill(postmaster, signal.SIGQUIT)  # an immediate shutdown
    assert installation.finish() == 0
    status = installation.status()
    for pipeline in pipelines:
        assert status[pipeline]["state"] == "stopped"
        assert status[pipeline]["loaded"] > 0
    assert not installation.processes()


def _runs(api: AirflowApi, dag_id: str) -> list[dict[str, object]]:
    try:
        return api.unfinished_runs(dag_id)
    except PlatformError:  # the DAG is not known yet
        return []


def _task(api: AirflowApi, dag_id: str, run_id: str) -> dict[str, object]:
    return next(task for task in api.task_instances(dag_id, run_id) if task["task_id"] == "run")


def _is_deferred_again(api: AirflowApi, dag_id: str, run_id: str, attempt: int) -> bool:
    task = _task(api, dag_id, run_id)
    return task["state"] == "deferred" and task["try_number"] > attempt
