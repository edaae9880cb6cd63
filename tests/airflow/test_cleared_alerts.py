"""A run of the alert DAG that is cleared as a whole reports its own news again, and no other run's."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import clear_task_instances
from airflow.sdk import DAG
from airflow.utils.session import create_session
from psycopg2 import extensions

from spark_jobs.control.freshness_episodes import begin, end
from spark_jobs.settings import PROJECT_ROOT, Home
from tests.ledger.ledger_rows import register

pytestmark = [pytest.mark.usefixtures("airflow_database"), pytest.mark.timeout(180)]


@pytest.fixture
def dag(home: Home, connection: extensions.connection) -> DAG:
    """The DAG as shipped, over a warehouse in which the pipeline orders is late."""
    register(connection)
    begin(connection, "orders", datetime.now(UTC), "late")
    return DagBag(PROJECT_ROOT / "dags").dags["alert_freshness"]


def cleared(finished: DagRun) -> DagRun:
    """The run as it is when all its tasks were cleared and the scheduler has taken it up again."""
    with create_session() as session:
        run = session.merge(finished, load=True)
        started_at = run.start_date
        clear_task_instances(run.get_task_instances(session=session), session)
        run.set_state("running")
        session.flush()
        assert run.start_date != started_at
        session.expunge(run)
    return run


def news(dag: DAG, run: DagRun) -> list[str]:
    """Of each alert that the run has to tell, which half of its episode it is about."""
    return ["begin" if alert["until"] is None else "end" for alert in dag.get_task("news").execute({"dag_run": run})]


def test_a_cleared_run_tells_again_what_it_had_taken_on(dag: DAG) -> None:
    first, second = dag.test(), dag.test()
    assert news(dag, cleared(second)) == []
    assert news(dag, cleared(first)) == ["begin"]


def test_a_cleared_run_does_not_tell_what_is_over_and_was_told(dag: DAG, connection: extensions.connection) -> None:
    first = dag.test()
    end(connection, "orders")
    second = dag.test()
    assert news(dag, cleared(first)) == []
    assert news(dag, cleared(second)) == ["end"]
