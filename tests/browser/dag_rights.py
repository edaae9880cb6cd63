"""Airflow's simple auth manager, with users who may only read some DAGs, as other auth managers have them."""

from __future__ import annotations

import re
from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

READABLE = {"orders_viewer": r".*__orders", "stream_viewer": r"stream_load__.*"}


class DagRightsAuthManager(SimpleAuthManager):
    """The API server of the tests runs with it."""

    def is_authorized_dag(
        self, *, user: SimpleAuthManagerUser, details: DagDetails | None = None, **asked: Any
    ) -> bool:
        readable = READABLE.get(user.username, ".*")
        named = details is None or details.id is None or re.fullmatch(readable, details.id) is not None
        return named and super().is_authorized_dag(user=user, details=details, **asked)
