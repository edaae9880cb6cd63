"""Spark drivers that outlive the process that launches them, and never two for one pipeline, or of one name.

The driver table is the truth about drivers that have taken their pipeline over. A driver needs some seconds to get
there: until then the ask in the warehouse stands for it, and the launch record in FRESHET_HOME for its process, so that
a second caller waits for it too.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2 import extensions

from spark_jobs.control import driver_records, driver_requests, drivers, host_processes
from spark_jobs.control.driver_records import DriverRecord
from spark_jobs.driver.java import java_environment
from spark_jobs.errors import PipelineDefinitionError
from spark_jobs.launch.kept_bytecode import keeping_bytecode
from spark_jobs.launch.session_process import ProcessIdentity, SessionProcess, stop_sessions
from spark_jobs.ledger.status.driver_states import START_TIMEOUT
from spark_jobs.private_files import write_private
from spark_jobs.settings import HOME_VARIABLE, PROJECT_ROOT, WAREHOUSE_URL_VARIABLE, Home

# How long a driver that has stopped, or is to be replaced, may take to end its JVM.
STOP_GRACE_SECONDS = 20.0
STREAM_LOAD = str(PROJECT_ROOT / "spark_jobs" / "stream_load.py")
"""The Python file that spark-submit runs for a driver; its argument is the first pipeline."""
# The driver's process may be the launched one itself, and its start time is rounded.
_SAME_MOMENT = timedelta(milliseconds=50)


@dataclass(frozen=True)
class DriverLaunch:
    """A driver's process that is to take a pipeline over, and may not have yet.

    Attributes:
        driver: the driver's name.
        host: where it was launched.
        process_id: the process, spark-submit's JVM; the driver's own where it was joined.
        started_at: its start time in seconds since 1970.
        after_epoch: the pipeline's newest epoch at that time; the launched driver will have a later one.
        pipeline: which it was launched for, or loads; it may be asked to take up another one.
    """

    driver: str
    pipeline: str
    host: str
    process_id: int
    started_at: float
    after_epoch: int

    def is_running(self) -> bool:
        """Whether the process lives; on another host nothing is known of it, and it counts as living."""
        return self.host != host_processes.this_host() or ProcessIdentity(self.process_id, self.started_at).is_alive()

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
    """Find the pipeline's living driver, or the one that is to take it up, or ask one that lives, or launch one.

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
    driver = driver_requests.driver_of(connection, pipeline)
    with driver_requests.launch_lock(connection, driver):
        found = find_driver(connection, pipeline, home)
        if found is not None:
            return found
        driver_requests.ask(connection, pipeline, driver)
        try:
            newest = driver_records.newest_driver(connection, pipeline)
            after_epoch = newest.epoch if newest else 0
            process = _process_of(connection, driver, home, after_epoch)
            if process is not None:
                return process
            # What is left of the last launch hangs, or has stopped and its JVM is on the way out.
            end_driver(home, driver)
            return _launch(driver, pipeline, home, command(), after_epoch)
        except BaseException:
            with suppress(psycopg2.Error):  # nobody waits for it
                driver_requests.ask(connection, pipeline, None)
            raise


def find_driver(connection: extensions.connection, pipeline: str, home: Home) -> DriverRecord | DriverLaunch | None:
    """The pipeline's living driver, or the one that is asked to take it up and has not yet.

    How old a heartbeat is does not count here: after an outage of the warehouse all of them are old. On this host
    the process tells; a driver on another host lives until its heartbeat has been watched to stay the same.

    Args:
        connection: to the warehouse, in autocommit mode.
        pipeline: name of the pipeline.
        home: the installation on this host.
    """
    newest = driver_records.newest_driver(connection, pipeline)
    if newest and newest.is_alive(timedelta.max):
        return newest
    asked = driver_requests.asked_driver(connection, pipeline)
    return _process_of(connection, asked, home, newest.epoch if newest else 0) if asked else None


def give_up(connection: extensions.connection, pipeline: str, home: Home, launch: DriverLaunch) -> None:
    """Take back what was asked of a driver, and end it, if it was launched here and loads nothing.

    Args:
        connection: to the warehouse, in autocommit mode.
        pipeline: the pipeline that it was to take up.
        home: the installation on this host.
        launch: the driver.
    """
    with driver_requests.launch_lock(connection, launch.driver):
        driver_requests.ask(connection, pipeline, None)
        if launch.pipeline == pipeline and driver_records.living_driver(connection, launch.driver) is None:
            end_driver(home, launch.driver, launch)


def note_stopped(connection: extensions.connection, pipelines: Iterable[str]) -> None:
    """Note of pipelines whose drivers were ended here that they have stopped, and that no start of them is expected."""
    for pipeline in pipelines:
        newest = driver_records.newest_driver(connection, pipeline)
        if newest is not None and newest.state == "running" and not newest.is_alive(timedelta.max):
            drivers.finish(connection, pipeline, newest.epoch, "stopped")
        driver_requests.ask(connection, pipeline, None)
        with suppress(PipelineDefinitionError):  # it is not registered
            driver_requests.request_state(connection, pipeline, "draining")


def end_driver(
    home: Home, driver: str, launch: DriverLaunch | None = None, grace_seconds: float = STOP_GRACE_SECONDS
) -> None:
    """End the driver launched last on this host with all its processes; nothing happens if it has ended.

    Args:
        home: the installation on this host.
        driver: the driver's name.
        launch: end it only if it is this one.
        grace_seconds: how long it may take to end by itself.
    """
    recorded = _recorded_launch(home, driver)
    session = SessionProcess.recorded(_name(driver), _record(home, driver))
    if session is not None and recorded is not None and launch in (None, recorded):
        stop_sessions([session], grace_seconds)


def end_drivers(home: Home, grace_seconds: float = STOP_GRACE_SECONDS) -> None:
    """End all drivers that were launched on this host, as `end_driver` does."""
    for record in home.processes.glob(_record(home, "*").name):
        end_driver(home, record.stem.removeprefix(_name("")), grace_seconds=grace_seconds)


def driver_environment(home: Home, warehouse_url: str) -> dict[str, str]:
    """The environment of a driver: the caller's without what is Airflow's own, and what Freshet adds.

    The warehouse's URL may hold a password: it goes here and nowhere else.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.lstrip("_").startswith("AIRFLOW")}
    programs = Path(sys.executable).parent
    return {
        **keeping_bytecode(inherited, home),
        **java_environment(home, noting_classes=True),
        HOME_VARIABLE: str(home.root),
        WAREHOUSE_URL_VARIABLE: warehouse_url,
        "PATH": os.pathsep.join([str(programs), inherited.get("PATH", os.defpath)]),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
        # Python would put the script's folder, spark_jobs, first on its path, and `platform` would not be Python's.
        "PYTHONSAFEPATH": "1",
    }


def _process_of(connection: extensions.connection, driver: str, home: Home, after_epoch: int) -> DriverLaunch | None:
    """The process of this driver that takes pipelines up: one that loads others, or that was launched and starts."""
    living = driver_records.living_driver(connection, driver)
    if living is not None:
        started_at = living.process_started_at.timestamp()
        return DriverLaunch(driver, living.pipeline, living.host, living.process_id, started_at, after_epoch)
    launch = _recorded_launch(home, driver)
    if launch is None or not launch.is_running() or time.time() - launch.started_at > START_TIMEOUT.total_seconds():
        return None
    # One that has had pipelines, and lost them all, is on its way out.
    since = datetime.fromtimestamp(launch.started_at, UTC) - _SAME_MOMENT
    if driver_records.took_over_since(connection, driver, since):
        return None
    return replace(launch, after_epoch=after_epoch)


def _recorded_launch(home: Home, driver: str) -> DriverLaunch | None:
    try:
        launch = DriverLaunch(**json.loads(_record(home, driver).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return launch if launch.host == host_processes.this_host() else None


def _launch(driver: str, pipeline: str, home: Home, command: DriverCommand, after_epoch: int) -> DriverLaunch:
    session = SessionProcess.start(
        _name(driver),
        command.arguments,
        environment=command.environment,
        folder=home.root,
        log=home.driver_log(driver),
        record=_record(home, driver),
    )
    identity = session.identity
    host = host_processes.this_host()
    launch = DriverLaunch(driver, pipeline, host, identity.process_id, identity.started_at, after_epoch)
    write_private(_record(home, driver), json.dumps(launch.to_json()))
    return launch


def _name(driver: str) -> str:
    return f"driver-{driver}"


def _record(home: Home, driver: str) -> Path:
    return home.processes / f"{_name(driver)}.json"
