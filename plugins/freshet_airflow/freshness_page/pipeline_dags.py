"""The DAGs of a pipeline, and whether a user may run them."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from sqlalchemy import select

KINDS = ("stream_load", "reprocess_shed", "rebuild_cache", "validate_facts")


def pipeline_dags(pipeline: str, user: BaseUser) -> dict[str, dict[str, Any]]:
    """For each kind of DAG its id, whether Airflow has it, whether it is paused, and whether the user may run it.

    The page shows by this which buttons do something. Whether a run is started is decided by Airflow's own API.
    """
    ids = {kind: f"{kind}__{pipeline}" for kind in KINDS}
    with create_session() as session:
        query = select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(ids.values()), ~DagModel.is_stale)
        paused = {row.dag_id: bool(row.is_paused) for row in session.execute(query)}
    return {
        kind: {
            "dag_id": dag_id,
            "exists": dag_id in paused,
            "paused": paused.get(dag_id, False),
            "may_run": _may_run(dag_id, user),
        }
        for kind, dag_id in ids.items()
    }


def _may_run(dag_id: str, user: BaseUser) -> bool:
    return get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=DagDetails(id=dag_id), user=user
    )
