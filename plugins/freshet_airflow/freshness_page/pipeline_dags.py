"""The DAGs of a pipeline, and whether a user may run them."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from sqlalchemy import select

from freshet_airflow.freshness_page.dag_rights import permitted_dags

KINDS = ("stream_load", "reprocess_shed", "rebuild_cache", "validate_facts")


def pipeline_dags(pipeline: str, user: BaseUser) -> dict[str, dict[str, Any]]:
    """For each kind of DAG its id, whether Airflow has it, whether it is paused, and whether the user may run it.

    The page shows by this which buttons do something. Whether a run is started is decided by Airflow's own API.
    A DAG that the user may not read is as one that Airflow has not.
    """
    ids = {kind: f"{kind}__{pipeline}" for kind in KINDS}
    readable = permitted_dags(ids.values(), user)
    with create_session() as session:
        query = select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(readable), ~DagModel.is_stale)
        paused = {row.dag_id: bool(row.is_paused) for row in session.execute(query)}
    runnable = permitted_dags(paused, user, "POST", DagAccessEntity.RUN)
    return {
        kind: {
            "dag_id": dag_id,
            "exists": dag_id in paused,
            "paused": paused.get(dag_id, False),
            "may_run": dag_id in runnable,
        }
        for kind, dag_id in ids.items()
    }
