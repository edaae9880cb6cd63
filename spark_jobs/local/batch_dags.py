"""The DAGs that work beside the streams by themselves: reprocessing, rebuilt caches, validations."""

from __future__ import annotations

import time
from collections.abc import Iterable

from spark_jobs.local.airflow_api import AirflowApi

KINDS = ("reprocess_shed", "rebuild_cache", "validate_facts")
END_TIMEOUT_SECONDS = 45.0
POLL_SECONDS = 1.0


class BatchDags:
    """The batch DAGs of some pipelines, as far as Airflow has them.

    Args:
        api: Airflow's REST API.
        pipelines: names.
    """

    def __init__(self, api: AirflowApi, pipelines: Iterable[str]) -> None:
        self._api = api
        self._all = {f"{kind}__{pipeline}" for pipeline in pipelines for kind in KINDS}

    def start(self) -> None:
        """Let them run; what an earlier `up` may have left behind is not taken up again."""
        for dag_id in self._known():
            self._abandon(dag_id)
            self._api.unpause(dag_id)

    def pause(self) -> None:
        """Start no more runs: what is due is done when they are started again."""
        for dag_id in self._known():
            self._api.pause(dag_id)

    def wait_until_ended(self, timeout_seconds: float = END_TIMEOUT_SECONDS) -> None:
        """Let running ones end; those that take longer are given up, which loses nothing."""
        deadline = time.monotonic() + timeout_seconds
        while (running := [dag_id for dag_id in self._known() if self._api.unfinished_runs(dag_id)]) and (
            time.monotonic() < deadline
        ):
            time.sleep(POLL_SECONDS)
        for dag_id in running:
            self._abandon(dag_id)

    def _known(self) -> list[str]:
        return sorted(self._all & self._api.dag_ids())

    def _abandon(self, dag_id: str) -> None:
        for run in self._api.unfinished_runs(dag_id):
            self._api.fail_run(dag_id, run["dag_run_id"])
