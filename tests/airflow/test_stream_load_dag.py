"""Whole runs of the stream DAG, with drivers that spark-submit starts."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg2
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models import TaskInstance
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from airflow.sdk.listener import get_listener_manager
from airflow.utils.session import create_session
from freshet_airflow.driver_watch import RestartPolicy
from psycopg2 import extensions
from sqlalchemy import update

from spark_jobs.control import driver_records, driver_requests, host_processes
from spark_jobs.control.driver_records import DriverRecord
from spark_jobs.control.registration import register_pipeline
from spark_jobs.definition import load_definition
from spark_jobs.launch.detached_driver import find_driver
from spark_jobs.settings import PROJECT_ROOT, Home
from tests.airflow.conftest import STAND_IN
from tests.waiting import wait_for

pytestmark = [pytest.mark.usefixtures("airflow_database"), pytest.mark.timeout(180)]


@pytest.fixture
def dag(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DAG:
    """The DAG stream_load__orders as shipped, its driver replaced by one without Spark."""
    folder = tmp_path / "pipelines"
    shutil.copytree(PROJECT_ROOT / "dags" / "pipelines", folder)
    monkeypatch.setenv("FRESHET_PIPELINES", str(folder))
    dag = DagBag(PROJECT_ROOT / "dags").dags["stream_load__orders"]
    for task in dag.tasks:
        task.application = str(STAND_IN)
        task.watch = {"poll_seconds": 0.05, "max_silence_seconds": 5.0}
        task.retries = 0
    return dag


def run(dag: DAG, action: str) -> dict[str, str]:
    """Run the DAG to its end; state by task, and of the run itself under `dag`."""
    finished = dag.test(run_conf={"action": action})
    return {"dag": finished.state, **{task.task_id: task.state for task in finished.get_task_instances()}}


class Operator(threading.Thread):
    """Does something to the stream while the DAG runs in the test's own thread."""

    def __init__(self, url: str, act: Callable[[extensions.connection], None]) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._act = act
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            with closing(psycopg2.connect(self._url)) as connection:
                connection.autocommit = True
                self._act(connection)
        except BaseException as error:
            self._error = error

    def finish(self) -> None:
        self.join()
        if self._error is not None:
            raise self._error


def alive(connection: extensions.connection, epoch: int) -> DriverRecord:
    def look() -> DriverRecord | None:
        newest = driver_records.newest_driver(connection, "orders")
        return newest if newest and newest.epoch == epoch and newest.is_alive() else None

    return wait_for(look, f"the driver of epoch {epoch}")


def watched(connection: extensions.connection) -> bool:
    """Whether a trigger watches the stream."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM pg_stat_activity WHERE application_name = 'freshet watch orders'")
        return cursor.rowcount > 0


def drain(epoch: int) -> Callable[[extensions.connection], None]:
    def act(connection: extensions.connection) -> None:
        alive(connection, epoch)
        wait_for(lambda: watched(connection), "the stream to be watched")
        driver_requests.request_state(connection, "orders", "draining")

    return act


def states(connection: extensions.connection) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT state FROM freshet.driver ORDER BY epoch")
        return [state for (state,) in cursor.fetchall()]


def task_instance(dag: DAG, watching_run: str) -> SimpleNamespace:
    """The task instance of a task that is called by itself, outside of any run that Airflow knows."""
    states = {watching_run: {"run": "deferred"}}
    return SimpleNamespace(dag_id=dag.dag_id, run_id="this run", get_task_states=lambda **_: states)


@pytest.fixture
def living_driver(
    dag: DAG, home: Home, connection: extensions.connection, warehouse_url: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A driver that runs already."""
    register_pipeline(connection, "orders", timedelta(seconds=5), "{}")
    with subprocess.Popen([sys.executable, str(STAND_IN), "orders"]) as process:
        alive(connection, 1)
        yield process
        process.kill()


def test_a_dead_driver_is_restarted_and_the_run_succeeds_when_the_stream_was_drained(
    dag: DAG, home: Home, warehouse_url: str, connection: extensions.connection
) -> None:
    def kill_then_drain(connection: extensions.connection) -> None:
        os.kill(alive(connection, 1).process_id, signal.SIGKILL)
        drain(2)(connection)

    operator = Operator(warehouse_url, kill_then_drain)
    assert run(dag, "start") == {"dag": "success", "drain": "skipped", "run": "success"}
    operator.finish()
    assert states(connection) == ["failed", "stopped"]
    assert find_driver(connection, "orders", home) is None
    # spark-submit started it: its command line is in the log, and nothing secret is.
    log = home.driver_log("tpch").read_text()
    assert "driver of epoch 2" in log
    assert warehouse_url not in log


def test_a_living_driver_is_adopted(
    living_driver: subprocess.Popen[bytes], dag: DAG, warehouse_url: str, connection: extensions.connection
) -> None:
    operator = Operator(warehouse_url, drain(1))
    assert run(dag, "start")["dag"] == "success"
    operator.finish()
    assert states(connection) == ["stopped"]
    assert living_driver.wait(10) == 0


@pytest.fixture
def lineage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that Airflow's OpenLineage provider writes its events to, one a line."""
    from airflow.providers.openlineage import conf
    from airflow.providers.openlineage.plugins import listener

    def forget() -> None:
        for known in (*vars(conf).values(), listener.get_openlineage_listener):
            if hasattr(known, "cache_clear"):
                known.cache_clear()

    file = tmp_path / "lineage.jsonl"
    transport = {"type": "file", "log_file_path": str(file), "append": True}
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(transport))
    forget()
    provider = listener.get_openlineage_listener()
    get_listener_manager().add_listener(provider)
    yield file
    get_listener_manager().pm.unregister(provider)
    monkeypatch.undo()
    forget()


def test_the_streams_run_tells_of_which_columns_its_facts_are_made(
    lineage: Path, living_driver: subprocess.Popen[bytes], dag: DAG, warehouse_url: str, home: Home
) -> None:
    operator = Operator(warehouse_url, drain(1))
    assert run(dag, "start")["dag"] == "success"
    operator.finish()
    events = [json.loads(line) for line in lineage.read_text().splitlines()]
    of_task = [event for event in events if event["job"]["name"] == "stream_load__orders.run"]
    started, ended = (event for event in events if event["job"]["name"] == "freshet.orders")
    assert (started["eventType"], ended["eventType"]) == ("START", "COMPLETE")
    assert started["run"]["runId"] == ended["run"]["runId"]
    assert started["run"]["facets"]["parent"]["run"]["runId"] in {event["run"]["runId"] for event in of_task}
    assert started["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    source, relation = started["inputs"]
    (fact,) = started["outputs"]
    assert (source["namespace"], source["name"]) == ("file", str(home.root / "landing" / "orders"))
    assert [each["name"].split(".", 1)[1] for each in (relation, fact)] == ["master.customer", "warehouse.fact_orders"]
    columns = fact["facets"]["columnLineage"]["fields"]
    (fetched,) = columns["market_segment"]["inputFields"]
    assert (fetched["name"], fetched["field"]) == (relation["name"], "c_mktsegment")
    assert "password" not in lineage.read_text()


@pytest.fixture
def watching_run(dag: DAG) -> Iterator[str]:
    """Another run of the DAG whose task `run` is deferred in Airflow's database, as it is while it watches."""
    (task,) = [task for task in dag.test(run_conf={"action": "drain"}).get_task_instances() if task.task_id == "run"]

    def set_state(state: str) -> None:
        with create_session() as session:
            session.execute(update(TaskInstance).where(TaskInstance.id == task.id).values(state=state))

    set_state("deferred")
    yield task.run_id
    set_state("success")


def test_a_second_start_is_skipped_while_another_run_watches_the_driver(
    watching_run: str,
    living_driver: subprocess.Popen[bytes],
    dag: DAG,
    connection: extensions.connection,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for _ in range(2):
        assert run(dag, "start") == {"dag": "success", "drain": "skipped", "run": "skipped"}
    assert f"the run {watching_run} watches it" in "".join(capfd.readouterr())
    assert states(connection) == ["running"]


def test_a_start_while_the_driver_drains_is_not_skipped(
    living_driver: subprocess.Popen[bytes], dag: DAG, connection: extensions.connection
) -> None:
    """The watching run leaves with the drained driver: the next one is this run's."""
    context = {"ti": task_instance(dag, watching_run="another run")}
    os.kill(living_driver.pid, signal.SIGSTOP)
    driver_requests.request_state(connection, "orders", "draining")
    with pytest.raises(TaskDeferred) as waiting:
        dag.get_task("run").execute(context)
    assert waiting.value.trigger.carried == {"launch_again": True}


def test_a_task_that_starts_over_waits_for_the_driver_it_has_launched(
    dag: DAG, home: Home, connection: extensions.connection
) -> None:
    """Cleared while its driver is starting, and again when that has taken over, a task launches no other."""
    task = dag.get_task("run")
    context = {"ti": task_instance(dag, watching_run="this run")}
    with pytest.raises(TaskDeferred) as first:
        task.execute(context)
    with pytest.raises(TaskDeferred) as second:
        task.execute(context)
    launched = first.value.trigger.launch
    assert second.value.trigger.launch == launched
    alive(connection, 1)
    with pytest.raises(TaskDeferred) as third:
        task.execute(context)
    assert (third.value.trigger.launch, third.value.trigger.epoch) == (None, 1)
    # spark-submit leads the session that the driver's Python lives in.
    assert os.getsid(alive(connection, 1).process_id) == launched["process_id"]


def test_drain_waits_until_the_driver_has_stopped(
    living_driver: subprocess.Popen[bytes], dag: DAG, connection: extensions.connection
) -> None:
    assert run(dag, "drain") == {"dag": "success", "drain": "success", "run": "skipped"}
    assert states(connection) == ["stopped"]


def test_drain_without_a_driver_has_nothing_to_wait_for(dag: DAG, connection: extensions.connection) -> None:
    assert run(dag, "drain")["dag"] == "success"
    assert states(connection) == []


def test_restart_drains_the_living_driver_and_launches_another(
    living_driver: subprocess.Popen[bytes], dag: DAG, warehouse_url: str, connection: extensions.connection
) -> None:
    operator = Operator(warehouse_url, drain(2))
    assert run(dag, "restart") == {"dag": "success", "drain": "success", "run": "success"}
    operator.finish()
    assert states(connection) == ["stopped", "stopped"]


def test_a_driver_that_fails_again_and_again_fails_the_run_with_its_error(
    dag: DAG, home: Home, monkeypatch: pytest.MonkeyPatch, connection: extensions.connection, capfd: Any
) -> None:
    monkeypatch.setenv("STAND_IN", "fail")
    dag.get_task("run").restart_policy = RestartPolicy(most=1, window_seconds=600.0)
    assert run(dag, "start") == {"dag": "failed", "drain": "skipped", "run": "failed"}
    assert states(connection) == ["failed", "failed"]
    told = "".join(capfd.readouterr())
    assert "was restarted 1 times within 10 minutes. Its last error: a disk is full." in told
    assert str(home.driver_log("tpch")) in told


def test_a_driver_that_falls_silent_is_ended_and_replaced(
    dag: DAG, monkeypatch: pytest.MonkeyPatch, warehouse_url: str, connection: extensions.connection
) -> None:
    monkeypatch.setenv("STAND_IN", "silent")
    dag.get_task("run").watch["max_silence_seconds"] = 1.0

    def speak_then_drain(connection: extensions.connection) -> None:
        silent = alive(connection, 1)
        monkeypatch.setenv("STAND_IN", "run")
        drain(2)(connection)
        assert host_processes.process_started_at(silent.process_id) is None

    operator = Operator(warehouse_url, speak_then_drain)
    assert run(dag, "start")["dag"] == "success"
    operator.finish()
    assert states(connection) == ["failed", "stopped"]


def test_a_driver_that_is_refused_fails_the_run_at_once_with_the_end_of_its_log(
    dag: DAG, monkeypatch: pytest.MonkeyPatch, connection: extensions.connection, capfd: Any
) -> None:
    monkeypatch.setenv("STAND_IN", "refuse")
    assert run(dag, "start")["run"] == "failed"
    assert states(connection) == []
    assert "the fact table is missing" in "".join(capfd.readouterr())


def test_a_faulty_definition_is_refused_before_anything_is_launched(
    dag: DAG, tmp_path: Path, connection: extensions.connection, capfd: Any
) -> None:
    (tmp_path / "pipelines" / "orders.yaml").write_text("name: orders\nsource: {format: xml}\n")
    assert run(dag, "start")["run"] == "failed"
    assert states(connection) == []
    assert "source.format" in "".join(capfd.readouterr())


def test_a_stream_whose_fact_table_is_anothers_is_refused_before_anything_is_launched(
    dag: DAG, connection: extensions.connection
) -> None:
    definition = load_definition("orders").model_dump_json(by_alias=True)
    register_pipeline(connection, "returns", timedelta(seconds=5), definition)
    with pytest.raises(AirflowFailException, match="that is the fact table of pipeline returns"):
        dag.get_task("run").execute({"ti": task_instance(dag, watching_run="another run")})
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM freshet.pipeline")
        assert cursor.fetchall() == [("returns",)]


def test_a_stream_whose_definition_was_spoilt_can_be_drained(
    living_driver: subprocess.Popen[bytes], dag: DAG, tmp_path: Path, connection: extensions.connection
) -> None:
    (tmp_path / "pipelines" / "orders.yaml").write_text("name: orders\nsource: {format: xml}\n")
    assert run(dag, "drain")["dag"] == "success"
    assert states(connection) == ["stopped"]
