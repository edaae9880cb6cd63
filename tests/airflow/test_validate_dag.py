"""Whole runs of the DAG validate_facts__orders, over facts in a real warehouse."""

import logging
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, ParamValidationError
from freshet_airflow.assets import facts_loaded
from freshet_airflow.validate_facts_operator import _selection
from psycopg2 import extensions

from spark_jobs.control.registration import register_pipeline
from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.settings import PROJECT_ROOT, Home
from spark_jobs.validation.process import ValidationProcess

pytestmark = [pytest.mark.usefixtures("airflow_database"), pytest.mark.timeout(180)]

CUSTOMERS = """
    INSERT INTO master.customer
    SELECT k, k, 'n', 'a', 1, 'p', 1, 'BUILDING', 'c' FROM generate_series(1, 10) AS k
"""
FACTS = """
    INSERT INTO warehouse.fact_orders
    SELECT k, 1, 'BUILDING', 'O', 10, '2026-05-01', '5-LOW', 'Clerk#000000001', 0, now(), %(batch)s
    FROM generate_series(%(first)s, %(last)s) AS k
"""


def load(connection: extensions.connection, first: int, last: int) -> int:
    """A batch of sound orders, as the stream would have left it; its number."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO freshet.batch (pipeline, epoch, state, facts, closed_at) "
            "VALUES ('orders', 1, 'committed', %s, clock_timestamp()) RETURNING batch_no",
            [last - first + 1],
        )
        ((batch,),) = cursor.fetchall()
        cursor.execute(FACTS, {"batch": batch, "first": first, "last": last})
    return batch


@pytest.fixture
def dag(home: Home, connection: extensions.connection) -> DAG:
    """The DAG as shipped, over a warehouse that holds ten customers."""
    register_pipeline(connection, "orders", timedelta(seconds=5), "{}")
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(CUSTOMERS)
    dag = DagBag(PROJECT_ROOT / "dags").dags["validate_facts__orders"]
    for task in dag.tasks:
        task.retries = 0
    return dag


def run(dag: DAG, **params: Any) -> tuple[str, str]:
    """Run the DAG to its end; states of the run and of its task."""
    finished = dag.test(run_conf=params)
    (task,) = finished.get_task_instances()
    return finished.state, task.state


def results(connection: extensions.connection) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT result, facts, airflow_run IS NOT NULL FROM freshet.validation ORDER BY validation_id")
        return cursor.fetchall()


def test_what_was_loaded_is_validated_once(dag: DAG, home: Home, connection: extensions.connection, capfd: Any) -> None:
    load(connection, 1, 5)
    assert run(dag) == ("success", "success")
    assert run(dag) == ("success", "skipped")
    told = "".join(capfd.readouterr())
    assert "No data: no facts of orders, what was loaded since the last validation." in told
    assert results(connection) == [("passed", 5, True), ("no data", 0, True)]
    assert (home.data_docs("orders") / "index.html").exists()


def test_facts_that_are_not_what_they_must_be_fail_the_run_and_say_why(
    dag: DAG, connection: extensions.connection, warehouse_url: str, capfd: Any
) -> None:
    batch = load(connection, 1, 5)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE warehouse.fact_orders SET customer_sk = 11 WHERE order_key > 3")
    assert run(dag, what="batches", first_batch=batch, last_batch=batch) == ("failed", "failed")
    told = "".join(capfd.readouterr())
    assert (
        "customer_sk is in master.customer (customer_sk): not so for 2 of 5 facts, "
        "for example order_key 4, customer_sk 11; order_key 5, customer_sk 11." in told
    )
    assert warehouse_url not in told


def test_a_form_filled_in_wrongly_is_refused(dag: DAG, connection: extensions.connection, capfd: Any) -> None:
    assert run(dag, what="loaded") == ("failed", "failed")
    assert "loaded: give a first or a last one, or both." in "".join(capfd.readouterr())
    assert results(connection) == []


@pytest.mark.parametrize(
    ("form", "told"),
    [
        (
            {"what": "loaded", "loaded_from": "yesterday"},
            "loaded_from: 'yesterday' is not a moment. Write date and time",
        ),
        ({"what": "loaded", "loaded_until": ""}, "loaded_until: '' is not a moment"),
        ({"what": "loaded", "loaded_from": "2026-03-01T10:00:60Z"}, "loaded_from: '2026-03-01T10:00:60Z' is not a mom"),
        ({"what": "loaded", "loaded_from": "2026"}, "loaded_from: '2026' is not a moment"),
        (
            {"what": "loaded", "loaded_from": "2026-03-02", "loaded_until": "2026-03-01T23:00:00Z"},
            "loaded_from and loaded_until: from 2026-03-02 00:00:00+00:00 until 2026-03-01 23:00:00+00:00 there is no",
        ),
        (
            {"what": "batches", "first_batch": 5, "last_batch": 3},
            "first_batch and last_batch: there are no batches from 5 to 3.",
        ),
    ],
)
def test_bounds_that_hold_nothing_are_refused_and_not_tried_again(form: dict[str, Any], told: str) -> None:
    with pytest.raises(AirflowFailException) as refused:
        _selection(form)
    assert f"nothing was validated. {told}" in str(refused.value)
    assert "Trigger the DAG again" in str(refused.value)


@pytest.mark.parametrize("number", [0, 2**63])
def test_a_batch_number_that_there_can_not_be_is_refused_by_the_form(number: int) -> None:
    dag = DagBag(PROJECT_ROOT / "dags").dags["validate_facts__orders"]
    for name in ("first_batch", "last_batch"):
        with pytest.raises(ParamValidationError):
            dag.params.get_param(name).resolve(number)


def test_the_validations_process_gets_the_warehouse_and_nothing_of_airflows(
    home: Home, warehouse_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "secret")
    monkeypatch.setenv("_AIRFLOW_SECRET", "secret")
    environment = ValidationProcess(home, warehouse_url, logging.getLogger("validation").info)._environment
    assert environment["FRESHET_WAREHOUSE_URL"] == warehouse_url
    assert [name for name in environment if "AIRFLOW" in name] == []


def test_an_outage_is_no_verdict_and_worth_another_try(
    dag: DAG, warehouse_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = warehouse_url.replace("/warehouse_", "/no_warehouse_")
    monkeypatch.setenv("FRESHET_WAREHOUSE_URL", f"{gone}&password=secret")
    task = DagBag(PROJECT_ROOT / "dags").dags["validate_facts__orders"].get_task("validate")
    assert task.retries > 0
    with pytest.raises(WarehouseUnavailableError, match="does not exist") as error:
        task.execute({"params": {"what": "new"}, "run_id": "manual"})
    assert "secret" not in str(error.value)


def test_a_spoilt_definition_fails_the_run_with_what_is_wrong(
    dag: DAG, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    folder = tmp_path / "pipelines"
    shutil.copytree(PROJECT_ROOT / "dags" / "pipelines", folder)
    monkeypatch.setenv("FRESHET_PIPELINES", str(folder))
    (folder / "orders.yaml").write_text("name: orders\nsource: {format: xml}\n")
    assert run(dag) == ("failed", "failed")
    assert "source.format" in "".join(capfd.readouterr())


def test_runs_follow_the_facts_and_one_another() -> None:
    dag = DagBag(PROJECT_ROOT / "dags").dags["validate_facts__orders"]
    assert dag.max_active_runs == 1
    assert [asset.name for asset in dag.timetable.asset_condition.objects] == [facts_loaded("orders").name]
    what = dag.params.get_param("what")
    assert what.value == "new"
    assert set(what.schema["values_display"]) == set(what.schema["enum"])
    assert "**orders**" in dag.doc_md
