"""Spark drivers that outlive the process that launches them, and never two for one pipeline.

The driver table is the truth about drivers that have taken their pipeline over. A driver needs some seconds to get
there: until then the launch record in FRESHET_HOME stands for it, so that a second caller waits for it too.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from psycopg2 import extensions

from spark_jobs.driver.java import java_environment
from spark_jobs.local.kept_bytecode import keeping_bytecode
from spark_jobs.local.private_files import write_private
from spark_jobs.local.session_process import ProcessIdentity, SessionProcess, stop_sessions
from spark_jobs.settings import HOME_VARIABLE, WAREHOUSE_URL_VARIABLE, Home
from spark_jobs.warehouse import drivers
from spark_jobs.warehouse.drivers import DriverRecord

# How long a driver that has stopped, or is to be replaced, may take to end its JVM.
STOP_GRACE_SECONDS = 20.0


@dataclass(frozen=True)
class DriverLaunch:
    """A driver's process that was launched, and may not have taken its pipeline over yet.

    Attributes:
        host: where it was launched.
        process_id: the process, spark-submit's JVM.
        started_at: its start time in seconds since 1970.
        after_epoch: the newest driver's epoch at that time; the launched one will have a later epoch.
    """

    host: str
    process_id: int
    started_at: float
    after_epoch: int

    def is_running(self) -> bool:
        """Whether the process lives; on another host nothing is known of it, and it counts as living."""
        return self.host != drivers.this_host() or ProcessIdentity(self.process_id, self.started_at).is_alive()

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; `DriverLaunch(**value)` reads it back."""
        return asdict(self)


@dataclass(frozen=True)
class DriverCommand:
    """What a driver is launched with: a command line, which everybody can read, and an environment."""

    arguments: Sequence[str]
    environment: Mapping[str, str]


def attach_or_launch(
    connection: extensions.connection,
    pipeline: str,
    home: Home,
    command: Callable[[], DriverCommand],
) -> DriverRecord | DriverLaunch:
    """Find the pipeline's living driver, or the launch that is under way, or launch one.

    Callers on all hosts take turns under an advisory lock of the warehouse. A driver whose end was noted
    (`drivers.note_end`), because it fell silent, is ended and replaced, though its process may live.

    Args:
        connection: to the warehouse, in autocommit mode.
        pipeline: a registered pipeline.
        home: the installation on this host.
        command: tells what to launch; called only if a driver is launched.

    Raises:
        PlatformError: the command could not be executed, or a hanging driver not be ended.
    """
    with _launch_lock(connection, pipeline):
        found = find_driver(connection, pipeline, home)
        if found is not None:
            return found
        # What is left of the last launch hangs, or has stopped and its JVM is on the way out.
        end_driver(home, pipeline)
        newest = drivers.newest_driver(connection, pipeline)
        return _launch(pipeline, home, command(), newest.epoch if newest else 0)


def find_driver(connection: extensions.connection, pipeline: str, home: Home) -> DriverRecord | DriverLaunch | None:
    """The pipeline's living driver, or a launch on this host that has not taken the pipeline over yet.

    How old a heartbeat is does not count here: after an outage of the warehouse all of them are old. On this host
    the process tells; a driver on another host lives until its heartbeat has been watched to stay the same.

    Args:
        connection: to the warehouse.
        pipeline: name of the pipeline.
        home: the installation on this host.
    """
    newest = drivers.newest_driver(connection, pipeline)
    if newest and newest.is_alive(timedelta.max):
        return newest
    launch = _recorded_launch(home, pipeline)
    registered = launch is not None and newest is not None and newest.epoch > launch.after_epoch
    return launch if launch and launch.is_running() and not registered else None


def end_driver(
    home: Home, pipeline: str, launch: DriverLaunch | None = None, grace_seconds: float = STOP_GRACE_SECONDS
) -> None:
    """End the driver launched last on this host with all its processes; nothing happens if it has ended.

    Args:
        home: the installation on this host.
        pipeline: name of the pipeline.
        launch: end it only if it is this one.
        grace_seconds: how long it may take to end by itself.
    """
    recorded = _recorded_launch(home, pipeline)
    session = SessionProcess.recorded(_name(pipeline), _record(home, pipeline))
    if session is not None and recorded is not None and launch in (None, recorded):
        stop_sessions([session], grace_seconds)


def driver_environment(home: Home, warehouse_url: str) -> dict[str, str]:
    """The environment of a driver: the caller's without what is Airflow's own, and what Freshet adds.

    The warehouse's URL may hold a password: it goes here and nowhere else.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.lstrip("_").startswith("AIRFLOW")}
    programs = Path(sys.executable).parent
    return {
        **keeping_bytecode(inherited, home),
        **java_environment(home),
        HOME_VARIABLE: str(home.root),
        WAREHOUSE_URL_VARIABLE: warehouse_url,
        "PATH": os.pathsep.join([str(programs), inherited.get("PATH", os.defpath)]),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
        # Python would put the script's folder, spark_jobs, first on its path, and `platform` would not be Python's.
        "PYTHONSAFEPATH": "1",
    }


def _recorded_launch(home: Home, pipeline: str) -> DriverLaunch | None:
    try:
        launch = DriverLaunch(**json.loads(_record(home, pipeline).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return launch if launch.host == drivers.this_host() else None


def _launch(pipeline: str, home: Home, command: DriverCommand, after_epoch: int) -> DriverLaunch:
    session = SessionProcess.start(
        _name(pipeline),
        command.arguments,
        environment=command.environment,
        folder=home.root,
        log=home.driver_log(pipeline),
        record=_record(home, pipeline),
    )
    identity = session.identity
    launch = DriverLaunch(drivers.this_host(), identity.process_id, identity.started_at, after_epoch)
    write_private(_record(home, pipeline), json.dumps(launch.to_json()))
    return launch


@contextlib.contextmanager
def _launch_lock(connection: extensions.connection, pipeline: str) -> Iterator[None]:
    key = ("freshet.launch", pipeline)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(hashtext(%s), hashtext(%s))", key)
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(hashtext(%s), hashtext(%s))", key)


def _name(pipeline: str) -> str:
    return f"driver-{pipeline}"


def _record(home: Home, pipeline: str) -> Path:
    return home.processes / f"{_name(pipeline)}.json"
