"""Never two drivers for one pipeline: finding, launching, replacing and ending them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psutil
import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.control import driver_requests, drivers
from spark_jobs.control.driver_records import DriverRecord
from spark_jobs.control.registration import register_pipeline
from spark_jobs.errors import PlatformError
from spark_jobs.launch.detached_driver import (
    DriverCommand,
    DriverLaunch,
    attach_or_launch,
    driver_environment,
    end_driver,
    end_drivers,
    find_driver,
    give_up,
)
from spark_jobs.launch.session_process import ProcessIdentity
from spark_jobs.settings import PROJECT_ROOT, Home
from tests.waiting import wait_for

STAND_IN = Path(__file__).parents[1] / "airflow" / "stand_in_driver.py"
COMMAND = [sys.executable, str(STAND_IN), "orders"]


@pytest.fixture
def connection(warehouse_url: str) -> Iterator[extensions.connection]:
    with closing(psycopg2.connect(warehouse_url)) as connection:
        connection.autocommit = True
        register_pipeline(connection, "orders", timedelta(seconds=5), "{}")
        yield connection


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    installation = Home(tmp_path)
    yield installation
    end_drivers(installation, grace_seconds=0.0)


def launch(connection: extensions.connection, home: Home, url: str, **variables: str) -> DriverRecord | DriverLaunch:
    command = DriverCommand(COMMAND, {**driver_environment(home, url), **variables})
    return attach_or_launch(connection, "orders", home, lambda: command)


def living(connection: extensions.connection, home: Home) -> DriverRecord:
    def look() -> DriverRecord | None:
        found = find_driver(connection, "orders", home)
        return found if isinstance(found, DriverRecord) else None

    return wait_for(look, "the driver to take over")


def epochs(connection: extensions.connection) -> list[tuple[int, str]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT epoch, state FROM freshet.driver ORDER BY epoch")
        return cursor.fetchall()


def test_a_launched_driver_is_waited_for_and_then_found_in_the_table(
    connection: extensions.connection, home: Home, warehouse_url: str
) -> None:
    launched = launch(connection, home, warehouse_url)
    assert isinstance(launched, DriverLaunch)
    assert launch(connection, home, warehouse_url) in (launched, living(connection, home))
    assert living(connection, home).process_id == launched.process_id
    assert launch(connection, home, warehouse_url).epoch == 1
    assert epochs(connection) == [(1, "running")]


def test_of_two_launches_at_once_only_one_starts_a_driver(
    connection: extensions.connection, home: Home, warehouse_url: str, tmp_path: Path
) -> None:
    program = f"""
import sys, psycopg2
from pathlib import Path
from spark_jobs.launch.detached_driver import DriverCommand, attach_or_launch, driver_environment
from spark_jobs.settings import PROJECT_ROOT, Home
home, url = Home(Path({str(tmp_path)!r})), {warehouse_url!r}
connection = psycopg2.connect(url)
connection.autocommit = True
sys.stdin.readline()
command = DriverCommand({COMMAND!r}, driver_environment(home, url))
print(attach_or_launch(connection, "orders", home, lambda: command).process_id)
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    launchers = [subprocess.Popen([sys.executable, "-c", program], **pipes) for _ in range(2)]
    for launcher in launchers:
        launcher.stdin.write("go\n")
        launcher.stdin.flush()
    found = {int(launcher.communicate()[0]) for launcher in launchers}
    assert found == {living(connection, home).process_id}
    assert epochs(connection) == [(1, "running")]


def test_the_driver_leads_a_session_of_its_own_and_its_log_is_named_after_the_pipeline(
    connection: extensions.connection, home: Home, warehouse_url: str
) -> None:
    launched = launch(connection, home, warehouse_url)
    assert os.getsid(launched.process_id) == launched.process_id
    living(connection, home)
    log = (home.logs / "driver-orders.log").read_text()
    assert "driver of epoch 1" in log


def share(connection: extensions.connection, *pipelines: str) -> None:
    for pipeline in pipelines:
        register_pipeline(connection, pipeline, timedelta(seconds=5), '{"driver": "till"}')


def test_pipelines_that_share_a_driver_are_taken_up_by_one_process(
    connection: extensions.connection, home: Home, warehouse_url: str
) -> None:
    """The second one asks the process while it starts, and the third one when it loads the first."""
    share(connection, "orders", "returns", "visits")
    command = DriverCommand(COMMAND, driver_environment(home, warehouse_url))
    found = [attach_or_launch(connection, name, home, lambda: command) for name in ("orders", "returns")]
    assert isinstance(found[0], DriverLaunch)
    assert found[1].process_id == found[0].process_id
    living(connection, home)
    found.append(attach_or_launch(connection, "visits", home, lambda: command))
    assert found[2].process_id == found[0].process_id
    assert driver_requests.asked_pipelines(connection, "till") == ["returns", "visits"]
    assert (home.logs / "driver-till.log").is_file()


def test_a_process_that_has_lost_all_its_pipelines_is_replaced(
    connection: extensions.connection, home: Home, warehouse_url: str
) -> None:
    share(connection, "orders", "returns")
    command = DriverCommand(COMMAND, {**driver_environment(home, warehouse_url), "STAND_IN": "silent"})
    first = attach_or_launch(connection, "orders", home, lambda: command)
    living(connection, home)
    drivers.finish(connection, "orders", 1, "stopped")
    second = attach_or_launch(connection, "returns", home, lambda: command)
    assert second.process_id != first.process_id
    assert not first.is_running()


def test_a_living_process_whose_heartbeats_an_outage_made_old_is_waited_for(
    connection: extensions.connection, home: Home, warehouse_url: str
) -> None:
    share(connection, "orders", "returns")
    command = DriverCommand(COMMAND, driver_environment(home, warehouse_url))
    first = attach_or_launch(connection, "orders", home, lambda: command)
    living(connection, home)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE freshet.driver SET heartbeat_at = heartbeat_at - interval '1 minute'")
    joined = attach_or_launch(connection, "returns", home, lambda: command)
    assert joined.process_id == first.process_id
    assert first.is_running()


def test_who_can_not_launch_asks_nobody_any_more(connection: extensions.connection, home: Home) -> None:
    with pytest.raises(PlatformError):
        attach_or_launch(connection, "orders", home, lambda: DriverCommand(["/nowhere/spark-submit"], {}))
    assert driver_requests.asked_driver(connection, "orders") is None


def test_to_give_up_one_pipeline_leaves_the_driver_to_the_others(
    connection: extensions.connection, home: Home, warehouse_url: str
) -> None:
    share(connection, "orders", "returns")
    command = DriverCommand(COMMAND, driver_environment(home, warehouse_url))
    launched = attach_or_launch(connection, "orders", home, lambda: command)
    joined = attach_or_launch(connection, "returns", home, lambda: command)
    living(connection, home)
    give_up(connection, "returns", home, joined)
    give_up(connection, "orders", home, launched)
    assert driver_requests.asked_pipelines(connection, "till") == []
    assert launched.is_running()


def test_a_killed_driver_is_replaced(connection: extensions.connection, home: Home, warehouse_url: str) -> None:
    launch(connection, home, warehouse_url)
    first = living(connection, home)
    os.kill(first.process_id, signal.SIGKILL)
    wait_for(lambda: find_driver(connection, "orders", home) is None, "the driver's end to be seen")
    launch(connection, home, warehouse_url)
    assert living(connection, home).process_id != first.process_id
    assert epochs(connection) == [(1, "fenced"), (2, "running")]


def test_a_driver_found_silent_is_ended_before_another_is_launched(
    connection: extensions.connection, home: Home, warehouse_url: str
) -> None:
    launch(connection, home, warehouse_url, STAND_IN="silent")
    hanging = living(connection, home)
    assert launch(connection, home, warehouse_url).epoch == 1, "its process lives"
    drivers.note_end(connection, "orders", 1, "it has fallen silent", drivers.Restart(1, 5))
    replacement = launch(connection, home, warehouse_url)
    assert isinstance(replacement, DriverLaunch)
    assert not psutil.pid_exists(hanging.process_id) or psutil.Process(hanging.process_id).status() == "zombie"
    # A second watcher that found the same silence takes the replacement that is under way.
    assert launch(connection, home, warehouse_url) in (replacement, living(connection, home))
    assert epochs(connection)[-1] == (2, "running")


def test_a_launch_that_ended_before_taking_over_is_not_waited_for(
    connection: extensions.connection, home: Home, warehouse_url: str
) -> None:
    launched = launch(connection, home, warehouse_url, STAND_IN="refuse")
    wait_for(lambda: not launched.is_running(), "the driver to refuse")
    assert find_driver(connection, "orders", home) is None
    assert "the fact table is missing" in home.driver_log("orders").read_text()


def test_only_the_launch_that_is_meant_is_ended(
    connection: extensions.connection, home: Home, warehouse_url: str
) -> None:
    launched = launch(connection, home, warehouse_url)
    end_driver(home, "orders", replace(launched, started_at=0.0))
    assert launched.is_running()
    end_driver(home, "orders", launched)
    assert not launched.is_running()


def test_a_record_of_another_host_does_not_count_here(
    home: Home, connection: extensions.connection, warehouse_url: str
) -> None:
    launched = launch(connection, home, warehouse_url, STAND_IN="refuse")
    record = home.processes / "driver-orders.json"
    me = ProcessIdentity.of(os.getpid())
    elsewhere = replace(launched, host="elsewhere", process_id=me.process_id, started_at=me.started_at)
    record.write_text(json.dumps(elsewhere.to_json()))
    assert find_driver(connection, "orders", home) is None
    end_driver(home, "orders")


def test_the_driver_inherits_nothing_of_airflow(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_BANK", "postgres://user:secret@bank/money")
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")
    environment = driver_environment(home, "postgresql://warehouse")
    assert not [name for name in environment if "AIRFLOW" in name]
    assert environment["FRESHET_WAREHOUSE_URL"] == "postgresql://warehouse"
    assert environment["FRESHET_HOME"] == str(home.root)
    assert environment["PYSPARK_PYTHON"] == sys.executable


def test_a_driver_keeps_compiled_modules_where_the_environment_wants_none_beside_the_source(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    environment = driver_environment(home, "postgresql://warehouse")
    subprocess.run([sys.executable, "-c", "import spark_jobs.durations"], env=environment, cwd=PROJECT_ROOT, check=True)
    assert list((home.root / "bytecode").rglob("durations.*.pyc"))


def test_a_driver_writes_compiled_modules_where_python_does(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    assert "PYTHONPYCACHEPREFIX" not in driver_environment(home, "postgresql://warehouse")
