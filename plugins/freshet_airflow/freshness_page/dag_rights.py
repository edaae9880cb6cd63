"""What a user may see and run of the pipelines: what Airflow lets them do with their DAGs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from sqlalchemy import select

KINDS = ("stream_load", "reprocess_shed", "forget_held", "rebuild_cache", "validate_facts")


def permitted_dags(
    dag_ids: Iterable[str], user: BaseUser, method: ResourceMethod = "GET", entity: DagAccessEntity | None = None
) -> set[str]:
    """Those of the DAGs with which the user may do this; Airflow need not have them.

    Args:
        dag_ids: the DAGs.
        user: who asks.
        method: what they want to do.
        entity: with what of the DAG; None: with itself.
    """
    asked = list(dag_ids)
    teams, manager = DagModel.get_dag_id_to_team_name_mapping(asked), get_auth_manager()
    return {
        dag_id
        for dag_id in asked
        if manager.is_authorized_dag(
            method=method,
            access_entity=entity,
            details=DagDetails(id=dag_id, team_name=teams.get(dag_id)),
            user=user,
        )
    }


def may_see_figures(pipeline: str, user: BaseUser) -> bool:
    """Whether the user may see how fresh a pipeline's facts are, how many there are and what its driver does."""
    return bool(permitted_dags([_stream(pipeline)], user))


def may_see_validations(pipeline: str, user: BaseUser) -> bool:
    """Whether the user may see the validations of a pipeline's facts, which show facts as examples."""
    return bool(permitted_dags([_validation(pipeline)], user))


def may_see_held(pipeline: str, user: BaseUser) -> bool:
    """Whether the user may see the tuples that are held, with their records."""
    return bool(permitted_dags([f"reprocess_shed__{pipeline}"], user))


def may_see_log(pipelines: Iterable[str], user: BaseUser) -> bool:
    """Whether the user may see the log of a driver of these pipelines: who may read those of all tasks that start it.

    Args:
        pipelines: all that log to it.
        user: who asks.
    """
    streams = {_stream(pipeline) for pipeline in pipelines}
    return permitted_dags(streams, user, entity=DagAccessEntity.TASK_LOGS) == streams


def seen_by(user: BaseUser, pipelines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The status of those pipelines that the user may see, without `validation` where they may not see that."""
    known = {status["name"]: status for status in pipelines}
    readable = permitted_dags([dag(name) for name in known for dag in (_stream, _validation)], user)
    return [
        {key: value for key, value in status.items() if key != "validation" or _validation(name) in readable}
        for name, status in known.items()
        if _stream(name) in readable
    ]


def _stream(pipeline: str) -> str:
    return f"stream_load__{pipeline}"


def _validation(pipeline: str) -> str:
    return f"validate_facts__{pipeline}"


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
