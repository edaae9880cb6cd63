"""The DAG reprocess_shed__orders: its form, its check, and whole runs of it through spark-submit."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowSkipException, ParamValidationError
from freshet_airflow.reprocessing_form import arguments
from psycopg2 import extensions

from spark_jobs.control import drivers
from spark_jobs.control.registration import register_pipeline
from spark_jobs.reprocessing.request import BATCH_ALGORITHMS
from spark_jobs.settings import PROJECT_ROOT, Home
from tests.waiting import wait_for

pytestmark = [pytest.mark.usefixtures("airflow_database"), pytest.mark.timeout(300)]

STAND_IN = Path(__file__).with_name("stand_in_batch_job.py")
DEFAULTS = {
    "places": ["shed", "unmatched"],
    "reason": None,
    "text": None,
    "arrived_from": None,
    "arrived_until": None,
    "limit": None,
    "algorithm": "auto",
    "all_unmatched": False,
    "requeue": None,
    "yields": True,
}
HELD_ORDER = {
    "o_orderkey": 7, "o_custkey": 5, "o_orderstatus": "O", "o_totalprice": 1.5, "o_orderdate": "2026-03-01",
    "o_orderpriority": "5-LOW", "o_clerk": "Clerk#1", "o_shippriority": 0, "o_comment": "",
    "ordered_at": "2026-03-01T10:00:00Z",
}  # fmt: skip


@pytest.fixture
def dag(home: Home, monkeypatch: pytest.MonkeyPatch, connection: extensions.connection) -> DAG:
    """The DAG as shipped, of a pipeline that was loaded before."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    register_pipeline(connection, "orders", timedelta(seconds=5), "{}")
    dag = DagBag(PROJECT_ROOT / "dags").dags["reprocess_shed__orders"]
    for task in dag.tasks:
        task.retries = 0
    return dag


def hold(connection: extensions.connection, place: str = "shed") -> None:
    """Have an order held by a batch that is closed."""
    with closing(connection.cursor()) as cursor:
        cursor.execute(
            "INSERT INTO freshet.batch (pipeline, epoch, state, closed_at, shed) "
            "VALUES ('orders', 1, 'committed', now() - interval '1 hour', 1) RETURNING batch_no"
        )
        [(batch_no,)] = cursor.fetchall()
        cursor.execute(
            "INSERT INTO freshet.held_tuple (pipeline, event_id, event_hash, place, fate, reason, relation, payload, "
            "payload_encoding, event_time, arrived_at, batch_no) "
            "VALUES ('orders', '[7]', 0, %s, %s, 'no time', 'master.customer', %s, 'json', now(), now(), %s)",
            [place, place, json.dumps(HELD_ORDER), batch_no],
        )


def by(name: str | None) -> SimpleNamespace:
    """A DAG run that this user has triggered; None: a schedule."""
    return SimpleNamespace(triggering_user_name=name)


def check(dag: DAG, run_type: str) -> None:
    dag.get_task("check").execute({"dag_run": SimpleNamespace(run_type=run_type)})


def states(finished: Any) -> dict[str, str]:
    """State by task, and of the run itself under `dag`."""
    return {"dag": finished.state, **{task.task_id: task.state for task in finished.get_task_instances()}}


def test_it_runs_once_at_a_time_by_asset_or_clock_and_offers_a_form(dag: DAG) -> None:
    assert [task.task_id for task in dag.topological_sort()] == ["check", "run"]
    assert (dag.max_active_runs, dag.catchup) == (1, False)
    assert [asset.name for asset in dag.timetable.asset_condition.objects] == ["freshet_backlog__orders"]
    assert {"freshet", "reprocessing", "orders"} == set(dag.tags)
    assert "**orders**" in dag.doc_md
    form = {name: dag.params.get_param(name) for name in dag.params}
    assert {name: param.value for name, param in form.items()} == DEFAULTS
    assert form["algorithm"].schema["enum"] == list(BATCH_ALGORITHMS)
    assert all(param.schema["title"] and param.description for param in form.values())


def test_the_form_becomes_the_jobs_arguments() -> None:
    def made(**form: Any) -> list[str]:
        return arguments({"params": {**DEFAULTS, **form}, "run_id": "manual__1", "dag_run": by("ada")})

    scheduled = arguments({"params": DEFAULTS, "run_id": "scheduled__1", "dag_run": by(None)})
    assert scheduled == ["--place=shed", "--place=unmatched", "--algorithm=auto", "--airflow-run=scheduled__1"]
    assert made(
        places=["shed"],
        reason="no time",
        text='{"o_custkey": 5',
        arrived_from="2026-03-01T00:00:00Z",
        limit=5,
        algorithm="mesh_join",
        all_unmatched=True,
        requeue="no partition",
        yields=False,
    ) == [
        "--place=shed", "--arrived-from=2026-03-01T00:00:00+00:00", "--limit=5", "--algorithm=mesh_join",
        "--reason=no time", '--text={"o_custkey": 5', "--all-unmatched", "--requeue=no partition", "--no-yield",
        "--airflow-run=manual__1", "--by=ada",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"arrived_from": "yesterday"}, "arrived_from: 'yesterday' is not a moment. Write date and time as ISO 8601"),
        ({"arrived_until": ""}, "arrived_until: '' is not a moment"),
        ({"arrived_until": "2026-03-01T10:00:60Z"}, "arrived_until: '2026-03-01T10:00:60Z' is not a moment"),
        (
            {"arrived_from": "2026-03-02T00:00:00Z", "arrived_until": "2026-03-02T00:00:00+01:00"},
            "arrived_from and arrived_until: from 2026-03-02 00:00:00+00:00 until 2026-03-02 00:00:00+01:00 there is",
        ),
    ],
)
def test_times_that_hold_nothing_are_refused_before_spark_is_started(
    dag: DAG, form: dict[str, Any], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    task = dag.get_task("run")
    task.application, task.retries, task.retry_delay = str(STAND_IN), 2, timedelta(0)
    finished = dag.test(run_conf=form)
    assert states(finished)["run"] == "failed"
    assert [task.try_number for task in finished.get_task_instances() if task.task_id == "run"] == [1]
    output = "".join(capfd.readouterr())
    assert f"nothing was started. {told}" in output
    assert "called with" not in output


def test_a_limit_is_a_whole_number_that_a_run_can_do(dag: DAG) -> None:
    limit = dag.params.get_param("limit")
    for refused in (0, 10**30, 1.5):
        with pytest.raises(ParamValidationError):
            limit.resolve(refused)
    context = {"params": {**DEFAULTS, "limit": limit.resolve(1.0)}, "run_id": "manual__1", "dag_run": by("ada")}
    assert "--limit=1" in arguments(context)


def test_a_run_that_is_killed_takes_its_driver_along(dag: DAG, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "wait")
    task = dag.get_task("run")
    task.application = str(STAND_IN)
    with ThreadPoolExecutor(1) as thread:
        context = {"params": DEFAULTS, "run_id": "manual__1", "dag_run": by("ada")}
        running = thread.submit(task.execute, context)
        wait_for(lambda: task._hook and any("called with" in line for line in task._hook._last_submit_log_lines), "it")
        task.on_kill()
        with pytest.raises(AirflowException, match="of orders failed"):
            running.result(60)


@pytest.mark.parametrize("run_type", ["scheduled", "asset_triggered"])
def test_a_run_that_nobody_asked_for_is_skipped_where_nothing_is_due(
    dag: DAG, connection: extensions.connection, run_type: str
) -> None:
    with pytest.raises(AirflowSkipException, match="No held tuple is due"):
        check(dag, run_type)
    check(dag, "manual")
    hold(connection)
    check(dag, run_type)


def test_a_run_that_has_died_is_marked_even_if_nothing_is_due(dag: DAG, connection: extensions.connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO freshet.reprocessing_run (pipeline, algorithm, places, tuple_limit, heartbeat_at) VALUES "
            "('orders', 'auto', '{shed}', 10, now() - interval '2 min'), ('orders', 'auto', '{shed}', 10, now())"
        )
        with pytest.raises(AirflowSkipException, match="No held tuple is due"):
            check(dag, "scheduled")
        cursor.execute("SELECT state FROM freshet.reprocessing_run ORDER BY batch_no")
        assert cursor.fetchall() == [("abandoned",), ("running",)]


def test_it_is_skipped_while_the_stream_is_overloaded(dag: DAG, connection: extensions.connection) -> None:
    hold(connection)
    drivers.take_over(connection, "orders", log_file=None)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE freshet.batch SET closed_at = now()")
    with pytest.raises(AirflowSkipException, match="no time to spare: 1 tuples were shed"):
        check(dag, "scheduled")


def test_the_job_gets_the_form_and_no_secret(dag: DAG, warehouse_url: str, capfd: pytest.CaptureFixture[str]) -> None:
    dag.get_task("run").application = str(STAND_IN)
    finished = dag.test(run_conf={"limit": 3, "places": ["unmatched"]})
    assert states(finished) == {"dag": "success", "check": "success", "run": "success"}
    told = "".join(capfd.readouterr())
    called = f"'orders', '--place=unmatched', '--limit=3', '--algorithm=auto', '--airflow-run={finished.run_id}'"
    assert f"called with [{called}, '--by=dag_test']" in told
    assert warehouse_url not in told


def test_a_job_that_fails_fails_the_run_with_its_own_error(
    dag: DAG, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    dag.get_task("run").application = str(STAND_IN)
    monkeypatch.setenv("STAND_IN", "fail")
    assert states(dag.test())["run"] == "failed"
    told = "".join(capfd.readouterr())
    assert "of orders failed:\nSchemaMismatchError: the fact table is missing\ncreate it" in told.replace("\\n", "\n")


def test_a_run_makes_facts_of_what_is_held(dag: DAG, connection: extensions.connection) -> None:
    hold(connection, "rejected")
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO master.customer VALUES (5, 50, 'n', 'a', 1, 'p', 1, 'BUILDING', 'c')")
        finished = dag.test(run_conf={"algorithm": "batched_index_nested_loop", "requeue": "no ti"})
        assert states(finished)["dag"] == "success"
        cursor.execute("SELECT order_key, customer_sk FROM warehouse.fact_orders")
        assert cursor.fetchall() == [(7, 50)]
        cursor.execute(
            "SELECT state, facts, shed, rejected, airflow_run, algorithm "
            "FROM freshet.reprocessing_run ORDER BY batch_no"
        )
        assert cursor.fetchall() == [
            ("finished", 0, 1, -1, finished.run_id, "requeue"),
            ("finished", 1, -1, 0, finished.run_id, "batched_index_nested_loop"),
        ]
        cursor.execute("SELECT FROM freshet.held_tuple")
        assert not cursor.rowcount


def test_what_the_form_chooses_is_forgotten_and_who_asked_is_noted(dag: DAG, connection: extensions.connection) -> None:
    hold(connection, "rejected")
    forgetting = DagBag(PROJECT_ROOT / "dags").dags["forget_held__orders"]
    for task in forgetting.tasks:
        task.retries = 0
    form = {"places": ["rejected"], "reason": None, "text": None, "arrived_from": None, "until": None}
    earlier = {"until": "2026-01-01T00:00:00Z"}
    others = ({"reason": "another"}, {"places": ["shed"]}, earlier)
    for asked, left in (*((other, 1) for other in others), ({"text": '"o_custkey": 5'}, 0)):
        assert states(forgetting.test(run_conf={**form, **asked})) == {"dag": "success", "forget": "success"}
        with closing(connection.cursor()) as cursor:
            cursor.execute("SELECT count(*) FROM freshet.held_tuple")
            assert cursor.fetchall() == [(left,)]
    with closing(connection.cursor()) as cursor:
        cursor.execute("SELECT algorithm, taken, statistics ->> 'by' FROM freshet.reprocessing_run")
        assert cursor.fetchall() == [("forget", 1, "dag_test")]
