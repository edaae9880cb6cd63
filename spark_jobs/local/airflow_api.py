"""The part of Airflow's REST API that the platform uses."""

from __future__ import annotations

import time
from datetime import datetime
from types import TracebackType
from typing import Any

import httpx

from spark_jobs.errors import PlatformError

COMPONENTS = ("scheduler", "triggerer", "dag_processor")
REQUEST_TIMEOUT_SECONDS = 30.0
PATIENCE_SECONDS = 3.0
PAUSE_SECONDS = 1.0


class AirflowApi:
    """A client that logs in by itself.

    Args:
        url: address of the API server, without a path.
        user: a user of the SimpleAuthManager.
        password: the user's password.
        patience_seconds: how long requests are sent again while the server does not answer, or fails: it may be
            starting again, or its database be away.
    """

    def __init__(self, url: str, user: str, password: str, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.url = url
        self._credentials = {"username": user, "password": password}
        self._client = httpx.Client(base_url=url, timeout=REQUEST_TIMEOUT_SECONDS, trust_env=False)
        self._token: str | None = None
        self._patience_seconds = patience_seconds

    def __enter__(self) -> AirflowApi:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.close()

    def heartbeats(self) -> dict[str, datetime]:
        """Latest heartbeat of each component that reports itself healthy; empty while the server does not answer."""
        try:
            health = self._client.get("/api/v2/monitor/health").raise_for_status().json()
        except (httpx.TransportError, httpx.HTTPStatusError):
            return {}
        return {
            name: datetime.fromisoformat(health[name][f"latest_{name}_heartbeat"])
            for name in COMPONENTS
            if health[name]["status"] == "healthy"
        }

    def dag_ids(self) -> set[str]:
        """Ids of all DAGs that are not stale."""
        return {dag["dag_id"] for dag in self._get("/api/v2/dags", limit=1000)["dags"]}

    def import_errors(self) -> dict[str, str]:
        """Error by DAG file."""
        errors = self._get("/api/v2/importErrors", limit=100)["import_errors"]
        return {error["filename"]: error["stack_trace"] for error in errors}

    def unpause(self, dag_id: str) -> None:
        """Let the DAG's runs start."""
        self._request("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": False})

    def pause(self, dag_id: str) -> None:
        """Start no more runs of the DAG; those that run go on."""
        self._request("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": True})

    def trigger(self, dag_id: str, parameters: dict[str, Any]) -> str:
        """Start a DAG run by hand; returns its id."""
        body = {"logical_date": None, "conf": parameters}
        return str(self._request("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=body)["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """State of a DAG run: queued, running, success or failed."""
        return str(self._get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def unfinished_runs(self, dag_id: str) -> list[dict[str, Any]]:
        """Runs of the DAG that are queued or running."""
        parameters = {"state": ["queued", "running"], "limit": 100}
        runs: list[dict[str, Any]] = self._get(f"/api/v2/dags/{dag_id}/dagRuns", **parameters)["dag_runs"]
        return runs

    def fail_unfinished_runs(self, dag_id: str, *, queued_before: datetime | None = None) -> None:
        """Mark the DAG's runs that are queued or running as failed, maybe the older ones only; their tasks end."""
        for run in self.unfinished_runs(dag_id):
            if queued_before is None or datetime.fromisoformat(run["queued_at"]) < queued_before:
                self._request("PATCH", f"/api/v2/dags/{dag_id}/dagRuns/{run['dag_run_id']}", json={"state": "failed"})

    def task_instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Task instances of a DAG run."""
        found: list[dict[str, Any]] = self._get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances")[
            "task_instances"
        ]
        return found

    def clear_task(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Make a task of a DAG run start over."""
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": [task_id], "only_failed": False}
        self._request("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", json=body)

    def _get(self, path: str, **parameters: Any) -> dict[str, Any]:
        return self._request("GET", path, params=parameters)

    def _request(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        response = self._answer(method, path, **arguments)
        if response.is_error:
            raise PlatformError(f"Airflow refused {method} {path} ({response.status_code}): {response.text[:500]}")
        answer: dict[str, Any] = response.json()
        return answer

    def _answer(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        until = time.monotonic() + self._patience_seconds
        while True:
            try:
                response = self._send(method, path, **arguments)
                if response.status_code == httpx.codes.UNAUTHORIZED:  # the token has expired
                    self._token = None
                    response = self._send(method, path, **arguments)
                if not response.is_server_error or time.monotonic() > until:
                    return response
            except httpx.TransportError as error:
                if time.monotonic() > until:
                    raise PlatformError(f"Airflow's API server at {self.url} does not answer: {error}.") from error
            # Sending anything twice does no harm: a second start finds the driver of the first one.
            time.sleep(PAUSE_SECONDS)

    def _send(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        if self._token is None:
            answer = self._client.post("/auth/token", json=self._credentials)
            if answer.is_server_error:
                return answer
            if answer.is_error:
                raise PlatformError(
                    f"Airflow refused the login of {self._credentials['username']}: {answer.text[:500]}"
                )
            self._token = answer.json()["access_token"]
        return self._client.request(method, path, headers={"Authorization": f"Bearer {self._token}"}, **arguments)
