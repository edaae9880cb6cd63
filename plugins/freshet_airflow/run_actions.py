"""Tasks that take part in some actions of a DAG run only."""

from __future__ import annotations

from collections.abc import Callable

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException


def only_for(*actions: str) -> Callable[[Context], None]:
    """A `pre_execute` that skips the task unless the run's parameter `action` is one of these."""

    def check(context: Context) -> None:
        action = context["params"]["action"]
        if action not in actions:
            raise AirflowSkipException(f"Not part of the action {action}.")

    return check
