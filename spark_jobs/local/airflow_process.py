"""Airflow on this machine: API server, scheduler, DAG processor and triggerer as background processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path

import psycopg2
from psycopg2 import errors, sql

from spark_jobs.errors import PlatformError
from spark_jobs.local.airflow_api import COMPONENTS, AirflowApi
from spark_jobs.local.airflow_configuration import (
    ADMINISTRATOR,
    METADATA_DATABASE,
    administrator_password,
    api_url,
    write_configuration,
)
from spark_jobs.local.embedded_postgres import EmbeddedPostgres
from spark_jobs.local.kept_bytecode import keeping_bytecode
from spark_jobs.local.log_tail import log_tail
from spark_jobs.local.session_process import SessionProcess, stop_sessions
from spark_jobs.settings import Home

# What `airflow standalone` starts as well. Each as a process of its own has a log of its own, can be watched and
# ended by itself, and needs no fifth process above it. Nobody asks for logs over the network here.
_COMMANDS = {
    "api_server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag_processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
START_TIMEOUT_SECONDS = 180.0
STOP_GRACE_SECONDS = 8.0
POLL_SECONDS = 0.25
_NEVER = datetime.min.replace(tzinfo=UTC)


class EmbeddedAirflow:
    """Airflow with its metadata in an embedded PostgreSQL.

    Args:
        home: the installation; AIRFLOW_HOME and logs lie below it.
        server: running server for the metadata database.
        port: loopback port of UI and REST API.
        environment: what DAGs and the drivers that they launch find in their environment, beside the caller's own.
        components: what is to run beside the API server.
    """

    def __init__(
        self,
        home: Home,
        server: EmbeddedPostgres,
        port: int,
        environment: Mapping[str, str],
        components: Collection[str] = COMPONENTS,
    ) -> None:
        self.url = api_url(port)
        self._home = home
        self._server = server
        self._port = port
        inherited = keeping_bytecode(_without_other_airflow(os.environ), home)
        self._environment = {**inherited, **environment, "AIRFLOW_HOME": str(home.airflow)}
        self._components = components
        self._started_at = _NEVER
        self._processes: list[SessionProcess] = []

    def prepare(self) -> None:
        """Make the metadata database, or bring it to the installed Airflow's version, and write the configuration."""
        self._create_database()
        write_configuration(self._home, port=self._port, metadata_url=self._server.url(METADATA_DATABASE))
        log = self._home.logs / "airflow-db-migrate.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            finished = subprocess.run(
                _airflow("db", "migrate"),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                check=False,
            )
        if finished.returncode != 0:
            raise PlatformError(f"Airflow could not prepare its database; the end of {log}:\n{log_tail(log)}")

    def start(self) -> None:
        """Start the API server and the components, and return at once; see `wait_until_healthy`."""
        self._started_at = datetime.now(UTC)
        for component in ("api_server", *self._components):
            name = _process_name(component)
            self._processes.append(
                SessionProcess.start(
                    name,
                    _airflow(*_COMMANDS[component]),
                    environment=self._environment,
                    folder=self._home.root,
                    log=self._log(name),
                    record=_record(self._home, name),
                )
            )

    def wait_until_healthy(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Wait until the API answers and every component has sent a heartbeat since it was started.

        Raises:
            PlatformError: a component ended, or the time is over; with the end of the log that tells why.
        """
        deadline = time.monotonic() + timeout_seconds
        with self.api() as api:
            while True:
                self.check()
                # A component that was killed lately still counts as healthy: its old heartbeat must not deceive.
                heartbeats = api.heartbeats()
                waiting = [name for name in self._components if heartbeats.get(name, _NEVER) < self._started_at]
                if not waiting:
                    return
                if time.monotonic() > deadline:
                    name = _process_name(waiting[0] if heartbeats else "api_server")
                    raise PlatformError(
                        f"Airflow was not healthy after {timeout_seconds:.0f} s: {name} does not report. "
                        f"The end of {self._log(name)}:\n{log_tail(self._log(name))}"
                    )
                time.sleep(POLL_SECONDS)

    def check(self) -> None:
        """Raise a PlatformError if a component has ended by itself."""
        for process in self._processes:
            if not process.is_running():
                log = self._log(process.name)
                raise PlatformError(
                    f"{process.name} ended with exit status {process.exit_status()}; the end of {log}:\n{log_tail(log)}"
                )

    def api(self) -> AirflowApi:
        """A REST client for the administrator; use it as a context manager."""
        password, _ = administrator_password(self._home)
        return AirflowApi(self.url, ADMINISTRATOR, password)

    def stop(self) -> None:
        """End all components with everything they started, except Spark drivers: those lead sessions of their own."""
        stop_sessions(self._processes, STOP_GRACE_SECONDS)
        self._processes.clear()

    def _log(self, name: str) -> Path:
        return self._home.logs / f"{name}.log"

    def _create_database(self) -> None:
        connection = psycopg2.connect(self._server.url())
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(METADATA_DATABASE)))
        except errors.DuplicateDatabase:
            pass
        finally:
            connection.close()


def stop_leftover_airflow(home: Home) -> None:
    """End the components that a former start recorded and nobody has ended."""
    names = map(_process_name, _COMMANDS)
    recorded = [SessionProcess.recorded(name, _record(home, name)) for name in names]
    stop_sessions(filter(None, recorded), STOP_GRACE_SECONDS)


def _process_name(component: str) -> str:
    return f"airflow-{component.replace('_', '-')}"


def _record(home: Home, name: str) -> Path:
    return home.processes / f"{name}.json"


def _airflow(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "airflow", *arguments]


def _without_other_airflow(environment: Mapping[str, str]) -> dict[str, str]:
    # Settings of another Airflow on this machine would override airflow.cfg. Connections and variables may come along.
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("AIRFLOW_") or name.startswith(("AIRFLOW_CONN_", "AIRFLOW_VAR_"))
    }
