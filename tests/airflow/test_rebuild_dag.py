"""The DAG rebuild_cache__orders: its form, and whole runs of it with a real Spark job over a real warehouse."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from freshet_airflow.rebuild_form import arguments
from psycopg2 import extensions

from spark_jobs.control.registration import register_pipeline
from spark_jobs.lookup.local_copy.store import CopyStore
from spark_jobs.settings import PROJECT_ROOT, Home

pytestmark = [pytest.mark.usefixtures("airflow_database"), pytest.mark.timeout(300)]

CUSTOMERS = """
    INSERT INTO master.customer
    SELECT k, k, 'n', 'a', 1, 'p', 1, 'BUILDING', 'c' FROM generate_series(1, 500) AS k
"""


@pytest.fixture
def dag(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connection: extensions.connection) -> DAG:
    """The DAG as shipped, over a pipeline whose only lookup reads a snapshot."""
    definition = (PROJECT_ROOT / "dags" / "pipelines" / "orders.yaml").read_text()
    folder = tmp_path / "pipelines"
    folder.mkdir()
    relation = "relation: master.customer\n"
    (folder / "orders.yaml").write_text(definition.replace(relation, f"{relation}    read: snapshot\n"))
    monkeypatch.setenv("FRESHET_PIPELINES", str(folder))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    register_pipeline(connection, "orders", timedelta(seconds=5), "{}")
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(CUSTOMERS)
    dag = DagBag(PROJECT_ROOT / "dags").dags["rebuild_cache__orders"]
    for task in dag.tasks:
        task.retries = 0
    return dag


def run(dag: DAG, **form: Any) -> str:
    """Run the DAG to its end; the run's state."""
    return dag.test(run_conf=form).state


def test_it_runs_every_night_once_at_a_time_and_offers_a_form(dag: DAG) -> None:
    assert [task.task_id for task in dag.tasks] == ["rebuild"]
    assert dag.max_active_runs == 1
    assert not dag.catchup
    assert {"freshet", "cache", "orders"} == set(dag.tags)
    assert "**orders**" in dag.doc_md
    form = {name: dag.params.get_param(name) for name in dag.params}
    assert {name: param.value for name, param in form.items()} == {
        "relations": None,
        "hot_tuples": True,
        "snapshots": True,
    }
    assert all(param.schema["title"] and param.description for param in form.values())


def test_the_form_becomes_the_jobs_arguments() -> None:
    everything = {"relations": None, "hot_tuples": True, "snapshots": True}
    some = {"relations": ["master.part", "master.supplier"], "hot_tuples": False, "snapshots": True}
    assert arguments("order_lines", {"params": everything}) == ["--hot", "--snapshot"]  # type: ignore[typeddict-item]
    chosen = arguments("order_lines", {"params": some})  # type: ignore[typeddict-item]
    assert chosen == ["--lookup=master.part", "--lookup=master.supplier", "--no-hot", "--snapshot"]
    assert arguments("order_lines", {"params": {**everything, "snapshots": False}}) == ["--hot", "--no-snapshot"]  # type: ignore[typeddict-item]


def test_a_form_that_asks_for_nothing_is_refused_before_spark_is_started() -> None:
    nothing = {"relations": None, "hot_tuples": False, "snapshots": False}
    with pytest.raises(AirflowFailException, match="hot_tuples and snapshots: both are off"):
        arguments("order_lines", {"params": nothing})  # type: ignore[typeddict-item]


def test_nothing_secret_is_rendered(dag: DAG, warehouse_url: str) -> None:
    [task] = dag.tasks
    assert all(warehouse_url not in str(getattr(task, field)) for field in task.template_fields)


def test_a_run_makes_a_snapshot_and_tells_of_it(
    dag: DAG, home: Home, connection: extensions.connection, warehouse_url: str, capfd: Any
) -> None:
    assert run(dag, hot_tuples=False) == "success"
    [folder] = home.caches("orders").glob("*/snapshots")
    assert CopyStore(folder).versions() == [1]
    told = "".join(capfd.readouterr())
    assert "master.customer: snapshot 1: 500 tuples" in told
    assert warehouse_url not in told
    with connection.cursor() as cursor:
        cursor.execute("SELECT relation, snapshot_version FROM freshet.cache WHERE pipeline = 'orders'")
        assert cursor.fetchall() == [("master.customer", 1)]


def test_a_relation_that_the_pipeline_does_not_have_fails_the_run_at_once(dag: DAG, capfd: Any) -> None:
    assert run(dag, relations=["master.none"]) == "failed"
    told = "".join(capfd.readouterr())
    assert "no lookup of pipeline orders has master.none. Allowed: master.customer." in told
    assert "spark-submit" not in told
