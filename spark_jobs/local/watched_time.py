"""Time that goes by while the streams run: they are shown, and whatever has ended by itself is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from spark_jobs.local.airflow_process import EmbeddedAirflow
from spark_jobs.local.live_status import LiveStatus
from spark_jobs.local.stream_runs import StreamRuns
from spark_jobs.local.workload_process import WorkloadProcess
from spark_jobs.workload.stop_signal import StopSignal

REFRESH_SECONDS = 1.0
ASK_AIRFLOW_SECONDS = 10.0  # its API server logs every request


class Watched(Protocol):
    """Somebody who lets time go by while streams load into a warehouse."""

    @property
    def warehouse_url(self) -> str:
        """libpq URL of the warehouse."""

    def tick(self, seconds: float = REFRESH_SECONDS, doing: str = "") -> bool:
        """Let so much time go by; return whether the streams are to go on."""


Course = Callable[[Watched], None]
"""What happens while the streams run. It returns when they are to be drained, at once after a tick that says so."""


class WatchedTime:
    """Lets time go by, tick by tick.

    Args:
        live: shows the streams.
        stop: signals to end.
        runs: the streams' DAG runs.
        airflow: running.
        workload: running, if there is one.
        warehouse_url: libpq URL of the warehouse.
    """

    def __init__(
        self,
        live: LiveStatus,
        stop: StopSignal,
        runs: StreamRuns,
        airflow: EmbeddedAirflow,
        workload: WorkloadProcess,
        warehouse_url: str,
    ) -> None:
        self.warehouse_url = warehouse_url
        self._live = live
        self._stop = stop
        self._runs = runs
        self._airflow = airflow
        self._workload = workload
        self._failures = ""
        self._asked_at = 0.0

    def tick(self, seconds: float = REFRESH_SECONDS, doing: str = "") -> bool:
        """Let so much time go by; return whether the streams are to go on.

        Args:
            seconds: how much.
            doing: what is going on, if there is more to say than the status does.

        Raises:
            PlatformError: a process has ended by itself.
        """
        if self._stop.wait(seconds):
            return False
        if time.monotonic() - self._asked_at > ASK_AIRFLOW_SECONDS:
            # No reason to end: whoever operates the platform may mend the cause, and clear the run in the UI.
            self._failures = " ".join(map(failed_run, self._runs.failed()))
            self._asked_at = time.monotonic()
        self._live.update(" ".join(filter(None, [doing, self._failures])))
        self._airflow.check()
        self._workload.check()
        return True


def uneventful(duration: timedelta | None) -> Course:
    """A course on which nothing happens.

    Args:
        duration: of it; None: until a signal ends it.
    """

    def run(watched: Watched) -> None:
        ends_at = time.monotonic() + duration.total_seconds() if duration else float("inf")
        while (left := ends_at - time.monotonic()) > 0 and watched.tick(min(left, REFRESH_SECONDS)):
            pass

    return run


def failed_run(pipeline: str) -> str:
    """What is told of a stream whose DAG run has failed."""
    return f"The run of stream_load__{pipeline} failed; Airflow's log of its task says why."
