"""A user's DAG that is scheduled on the facts of a pipeline, in Airflow's own database and by its own scheduling."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from airflow._shared.module_loading import import_string
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.models import DagModel, Trigger
from airflow.models.dagbundle import DagBundleModel
from airflow.triggers.base import TriggerEvent
from airflow.utils.session import create_session
from psycopg2 import extensions
from sqlalchemy import select

from spark_jobs.settings import Home
from tests.ledger.ledger_rows import add_batch, register

BUNDLE = "users"
USERS_DAG = """
from airflow.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator
from freshet_airflow.assets import fact_table

with DAG("report_orders", schedule=[fact_table("orders")], is_paused_upon_creation=False):
    EmptyOperator(task_id="report")
"""


@pytest.fixture
def trigger(airflow_database: None, home: Home, tmp_path: Path) -> int:
    """The trigger that Airflow has made of the DAG's schedule, by its id."""
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "report_orders.py").write_text(USERS_DAG)
    bag = DagBag(tmp_path / "dags", bundle_name=BUNDLE)
    assert not bag.import_errors
    with create_session() as session:
        session.merge(DagBundleModel(name=BUNDLE))
    sync_bag_to_db(bag, BUNDLE, None)
    with create_session() as session:
        ((number, path),) = session.execute(
            select(Trigger.id, Trigger.classpath).where(Trigger.classpath.endswith("NewFactsTrigger"))
        )
    assert path == "freshet_airflow.new_facts_trigger.NewFactsTrigger"
    return int(number)


def due() -> set[str]:
    """The DAGs for which the scheduler would create a run now."""
    with create_session() as session:
        dags, _ = DagModel.dags_needing_dagruns(session)
        return {dag.dag_id for dag in dags}


async def first_event(number: int) -> TriggerEvent:
    """What the trigger tells first, made as the triggerer makes it."""
    with create_session() as session:
        stored = session.get(Trigger, number)
        made = import_string(stored.classpath)(**stored.kwargs)
    async for event in made.run():
        return event
    raise AssertionError("it runs without end")


def test_a_dag_that_is_scheduled_on_facts_is_due_when_some_were_loaded(
    trigger: int, connection: extensions.connection
) -> None:
    register(connection)
    assert due() == set()
    add_batch(connection, facts=3)
    event = asyncio.run(asyncio.wait_for(first_event(trigger), 120))
    assert event.payload == {"pipeline": "orders", "loaded": 3}
    Trigger.submit_event(trigger, event)
    assert due() == {"report_orders"}
