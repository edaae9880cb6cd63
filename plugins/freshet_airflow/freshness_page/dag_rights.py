"""What a user may see of the pipelines: what Airflow lets them read of their DAGs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.models.dag import DagModel


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
