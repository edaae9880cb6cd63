"""Airflow on this machine: its configuration and secrets, and its components as background processes.

Secrets and the administrator's password are files of mode 0600 in AIRFLOW_HOME. Nothing secret goes through the
environment, which Spark drivers inherit.
"""

from __future__ import annotations

import base64
import configparser
import contextlib
import io
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import psycopg2
from psycopg2 import errors, sql

from spark_jobs.errors import PlatformError
from spark_jobs.launch.kept_bytecode import keeping_bytecode
from spark_jobs.launch.session_process import SessionProcess, log_tail, stop_sessions
from spark_jobs.local.airflow_api import COMPONENTS, AirflowApi
from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from spark_jobs.local.keeper import Keeper
from spark_jobs.private_files import write_private
from spark_jobs.settings import SHIPPED, Home

ADMINISTRATOR = "admin"
METADATA_DATABASE = "airflow"

# What `airflow standalone` starts as well. Each as a process of its own has a log of its own, can be watched and
# ended by itself, and needs no fifth process above it. No logs are asked for over the network here.
_COMMANDS = {
    "api_server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag_processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
START_TIMEOUT_SECONDS = 180.0
STOP_GRACE_SECONDS = 8.0
POLL_SECONDS = 0.25
_STEADY_SECONDS = 60.0
_PATIENCE_SECONDS = 90.0  # its database and then the API server may be started again
_NEVER = datetime.min.replace(tzinfo=UTC)


def api_url(port: int) -> str:
    """Address of the embedded Airflow's UI and REST API."""
    return f"http://127.0.0.1:{port}"


def write_configuration(home: Home, *, port: int, metadata_url: str) -> None:
    """Write airflow.cfg: what the embedded Airflow needs and what makes it start fast and stay small.

    Args:
        home: the installation.
        port: loopback port of UI and REST API.
        metadata_url: libpq URL of the metadata database, reached through a Unix socket.
    """
    secret = _secrets(home.airflow / "secrets.json")
    location = metadata_url.removeprefix("postgresql://")
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_dict(
        {
            "core": {
                "dags_folder": SHIPPED / "dags",
                "plugins_folder": SHIPPED / "plugins",
                # The other syntax, glob, warns of a deprecation in every task's log.
                "dag_ignore_file_syntax": "regexp",
                "executor": "LocalExecutor",
                # Workers only launch drivers and look; the long waiting is done by the triggerer.
                "parallelism": 4,
                "load_examples": False,
                "dags_are_paused_at_creation": False,
                "fernet_key": secret["fernet_key"],
                "simple_auth_manager_users": f"{ADMINISTRATOR}:admin",
                "simple_auth_manager_passwords_file": password_file(home),
            },
            "database": {
                "sql_alchemy_conn": f"postgresql+psycopg2://{location}",
                "sql_alchemy_conn_async": f"postgresql+asyncpg://{location}",
            },
            "api": {
                "host": "127.0.0.1",
                "port": port,
                "base_url": api_url(port),
                "workers": 1,
                "secret_key": secret["api_key"],
                "instance_name": "Freshet",
            },
            "api_auth": {"jwt_secret": secret["jwt_key"]},
            "scheduler": {"task_instance_heartbeat_timeout": 60},
            "dag_processor": {"refresh_interval": 15, "parsing_processes": 1},
            "logging": {
                "base_log_folder": home.logs / "tasks",
                "dag_processor_child_process_log_directory": home.logs / "dag-processor",
            },
        }
    )
    text = io.StringIO("# Written anew by each `freshet up`.\n")
    text.seek(0, io.SEEK_END)
    parser.write(text)
    # Airflow reads a percent sign as the start of an interpolation.
    write_private(home.airflow / "airflow.cfg", text.getvalue().replace("%", "%%"))


def administrator_password(home: Home) -> tuple[str, bool]:
    """The administrator's password, and whether it was made just now."""
    file = password_file(home)
    if file.exists():
        return json.loads(file.read_text())[ADMINISTRATOR], False
    password = secrets.token_urlsafe(12)
    write_private(file, json.dumps({ADMINISTRATOR: password}) + "\n")
    return password, True


def password_file(home: Home) -> Path:
    """The file that holds the administrator's password."""
    return home.airflow / "passwords.json"


def _secrets(file: Path) -> dict[str, str]:
    if not file.exists():
        made = {
            "fernet_key": base64.urlsafe_b64encode(os.urandom(32)).decode(),
            "jwt_key": secrets.token_hex(32),
            "api_key": secrets.token_hex(32),
        }
        write_private(file, json.dumps(made))
    stored: dict[str, str] = json.loads(file.read_text())
    return stored


class EmbeddedAirflow:
    """Airflow with its metadata in an embedded PostgreSQL.

    Args:
        home: the installation; AIRFLOW_HOME and logs lie below it.
        server: running server for the metadata database.
        port: loopback port of UI and REST API.
        environment: what DAGs and the drivers that they launch find in their environment, beside the caller's own.
        components: what is to run beside the API server.

    Attributes:
        url: address of UI and REST API.
        started_at: when it was started last.
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
        self.started_at = _NEVER
        self._processes: dict[str, SessionProcess] = {}
        self._keepers: dict[str, Keeper] = {}
        self._keeping = contextlib.ExitStack()

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
        self.started_at = datetime.now(UTC)
        for component in ("api_server", *self._components):
            self._start_component(component)

    def keep_running(self) -> None:
        """Until `stop`, start a component again whenever it has ended by itself: for lack of its database, say."""
        for component, process in self._processes.items():
            keeper = self._keepers[component] = Keeper(
                process.name,
                partial(self._needs_no_start, component),
                partial(self._start_component, component),
                partial(self._end_of, component),
                steady_seconds=_STEADY_SECONDS,
            )
            self._keeping.enter_context(keeper.at_work())

    def wait_until_healthy(self) -> None:
        """Wait until the API answers and every component has sent a heartbeat since it was started.

        Raises:
            PlatformError: a component ended, or the time is over; with the end of the log that tells why.
        """
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        with self.api() as api:
            while True:
                self.check()
                # A component that was killed lately still counts as healthy: its old heartbeat must not deceive.
                heartbeats = api.heartbeats()
                waiting = [name for name in self._components if heartbeats.get(name, _NEVER) < self.started_at]
                if not waiting:
                    return
                if time.monotonic() > deadline:
                    name = _process_name(waiting[0] if heartbeats else "api_server")
                    raise PlatformError(
                        f"Airflow was not healthy after {START_TIMEOUT_SECONDS:.0f} s: {name} does not report. "
                        f"The end of {self._log(name)}:\n{log_tail(self._log(name))}"
                    )
                time.sleep(POLL_SECONDS)

    def check(self) -> None:
        """Raise a PlatformError if a component has ended by itself, or if one that is kept running can't be.

        That its database can't be kept running is told first.
        """
        self._server.check()
        for component, process in self._processes.items():
            if keeper := self._keepers.get(component):
                keeper.check()
            elif not process.is_running():
                raise PlatformError(self._end_of(component))

    def api(self) -> AirflowApi:
        """A REST client for the administrator; use it as a context manager."""
        password, _ = administrator_password(self._home)
        return AirflowApi(self.url, ADMINISTRATOR, password, patience_seconds=_PATIENCE_SECONDS)

    def stop(self) -> None:
        """End all components with everything they started, except Spark drivers: those lead sessions of their own."""
        self._keeping.close()
        self._keepers.clear()
        stop_sessions(self._processes.values(), STOP_GRACE_SECONDS)
        self._processes.clear()

    def _start_component(self, component: str) -> None:
        name = _process_name(component)
        if ended := self._processes.get(component):
            stop_sessions([ended], STOP_GRACE_SECONDS)  # what it has left behind
        self._processes[component] = SessionProcess.start(
            name,
            _airflow(*_COMMANDS[component]),
            environment=self._environment,
            folder=self._home.root,
            log=self._log(name),
            record=_record(self._home, name),
        )

    def _needs_no_start(self, component: str) -> bool:
        """Whether a component runs, or waits for its database, without which it would end at once."""
        return self._processes[component].is_running() or not self._server.is_running()

    def _end_of(self, component: str) -> str:
        process = self._processes[component]
        log = self._log(process.name)
        return f"{process.name} ended with exit status {process.exit_status()}; the end of {log}:\n{log_tail(log)}"

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
    """End the components that a former start recorded and that still run."""
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
