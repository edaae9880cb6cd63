"""The pipelines' DAGs as `freshet up` starts, watches and ends them through Airflow's REST API."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime

from spark_jobs.errors import PlatformError
from spark_jobs.local.airflow_api import AirflowApi

DAG_TIMEOUT_SECONDS = 90.0
POLL_SECONDS = 0.5

KINDS = ("reprocess_shed", "rebuild_cache", "validate_facts")
END_TIMEOUT_SECONDS = 45.0
BATCH_POLL_SECONDS = 1.0


class StreamRuns:
    """Runs of the DAGs stream_load__<pipeline>.

    Args:
        api: Airflow's REST API.
        pipelines: names of the pipelines.
    """

    def __init__(self, api: AirflowApi, pipelines: Iterable[str]) -> None:
        self._api = api
        self._dags = {pipeline: f"stream_load__{pipeline}" for pipeline in pipelines}
        self._started: dict[str, str] = {}
        self._drains: dict[str, str] = {}

    def wait_until_known(self) -> None:
        """Wait until Airflow has read the DAG files.

        Raises:
            PlatformError: a DAG is still unknown after that time; with Airflow's import errors.
        """
        deadline = time.monotonic() + DAG_TIMEOUT_SECONDS
        while missing := set(self._dags.values()) - self._api.dag_ids():
            if time.monotonic() > deadline:
                errors = "\n".join(f"{file}: {error}" for file, error in self._api.import_errors().items())
                raise PlatformError(f"Airflow does not know {', '.join(sorted(missing))}.\n{errors}")
            time.sleep(POLL_SECONDS)

    def start(self) -> None:
        """Start a watching run for each pipeline, in place of any that an earlier `up` may have left behind."""
        self.abandon_unfinished()
        for pipeline, dag_id in self._dags.items():
            self._api.unpause(dag_id)
            self._started[pipeline] = self._api.trigger(dag_id, {"action": "start"})

    def not_watching(self) -> list[str]:
        """Pipelines whose watching run does not wait for its driver yet."""
        return [pipeline for pipeline in self._dags if not self._is_watching(pipeline)]

    def can_be_asked(self) -> bool:
        """Whether Airflow answers: it does not while it, or its database, is started again."""
        return bool(self._api.heartbeats())

    def start_drain(self) -> None:
        """Start a drain of each pipeline."""
        for pipeline, dag_id in self._dags.items():
            self._drains[pipeline] = self._api.trigger(dag_id, {"action": "drain"})

    def failed(self) -> list[str]:
        """Pipelines whose watching run has failed."""
        return self._in_state(self._started, "failed")

    def draining(self) -> list[str]:
        """Pipelines whose drain is not finished."""
        return self._in_state(self._drains, "queued", "running")

    def failed_drains(self) -> list[str]:
        """Pipelines whose drain has failed, or was given up."""
        return self._in_state(self._drains, "failed")

    def unfinished(self) -> list[str]:
        """Pipelines with a run that is queued or running."""
        return [pipeline for pipeline, dag_id in self._dags.items() if self._api.unfinished_runs(dag_id)]

    def abandon_unfinished(self) -> None:
        """Mark unfinished runs as failed, so that nothing they would still do is done later. No driver is touched."""
        for dag_id in self._dags.values():
            self._api.fail_unfinished_runs(dag_id)

    def _is_watching(self, pipeline: str) -> bool:
        tasks = self._api.task_instances(self._dags[pipeline], self._started[pipeline])
        return any(task["task_id"] == "run" and task["state"] == "deferred" for task in tasks)

    def _in_state(self, runs: dict[str, str], *states: str) -> list[str]:
        return [
            pipeline for pipeline, run_id in runs.items() if self._api.run_state(self._dags[pipeline], run_id) in states
        ]


class BatchDags:
    """The batch DAGs of some pipelines, as far as Airflow has them.

    Args:
        api: Airflow's REST API.
        pipelines: names.
        since: when this Airflow was started. Runs of before are left over, and are not taken up again.
    """

    def __init__(self, api: AirflowApi, pipelines: Iterable[str], since: datetime) -> None:
        self._api = api
        self._all = {f"{kind}__{pipeline}" for pipeline in pipelines for kind in KINDS}
        self._since = since

    def start(self) -> None:
        """Let them run, those that were triggered meanwhile first."""
        for dag_id in self._known():
            self._api.fail_unfinished_runs(dag_id, queued_before=self._since)
            self._api.unpause(dag_id)

    def pause(self) -> None:
        """Start no more runs: what is due is done when they are started again."""
        for dag_id in self._known():
            self._api.pause(dag_id)

    def wait_until_ended(self) -> None:
        """Let running ones end; those that take longer are given up, which loses nothing."""
        deadline = time.monotonic() + END_TIMEOUT_SECONDS
        while (running := [dag_id for dag_id in self._known() if self._api.unfinished_runs(dag_id)]) and (
            time.monotonic() < deadline
        ):
            time.sleep(BATCH_POLL_SECONDS)
        for dag_id in running:
            self._api.fail_unfinished_runs(dag_id)

    def _known(self) -> list[str]:
        return sorted(self._all & self._api.dag_ids())
