"""Runs the streams of an installation under Airflow while time goes by, then drains them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from rich.console import Console
from rich.markup import escape

from spark_jobs.control import driver_requests
from spark_jobs.control.driver_records import DriverRecord
from spark_jobs.definition import PipelineDefinition
from spark_jobs.errors import FreshetError, PlatformError
from spark_jobs.launch.detached_driver import find_driver
from spark_jobs.launch.session_process import log_tail
from spark_jobs.ledger.status.pipeline_status import read_status
from spark_jobs.local.airflow_process import EmbeddedAirflow
from spark_jobs.local.dag_runs import BatchDags, StreamRuns
from spark_jobs.local.live_status import LiveStatus
from spark_jobs.local.warehouse_server import PATIENCE
from spark_jobs.local.workload_process import WorkloadProcesses
from spark_jobs.settings import Home
from spark_jobs.source.files.landing_look import LandingLook
from spark_jobs.warehouse.connection import connect
from spark_jobs.workload.stop_signal import StopSignal

REFRESH_SECONDS = 1.0
ASK_AIRFLOW_SECONDS = 10.0  # its API server logs every request

DRIVER_TIMEOUT_SECONDS = 180.0
WATCHER_TIMEOUT_SECONDS = 15.0


class Watched(Protocol):
    """Time that goes by, tick by tick, while streams load into a warehouse."""

    @property
    def warehouse_url(self) -> str:
        """libpq URL of the warehouse."""

    def tick(self, seconds: float = REFRESH_SECONDS, doing: str = "") -> bool:
        """Let this much time go by; return whether the streams are to go on."""


Course = Callable[[Watched], None]
"""What happens while the streams run. It returns when they are to be drained, at once after a tick that says so."""


class WatchedTime:
    """Lets time go by, tick by tick.

    Args:
        live: shows the streams.
        stop: signals to end.
        runs: the streams' DAG runs.
        airflow: running.
        workload: running, if any pipeline has one.
        warehouse_url: libpq URL of the warehouse.
    """

    def __init__(
        self,
        live: LiveStatus,
        stop: StopSignal,
        runs: StreamRuns,
        airflow: EmbeddedAirflow,
        workload: WorkloadProcesses,
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
        """Let this much time go by; return whether the streams are to go on.

        Args:
            seconds: how much.
            doing: what is going on, if there is more to say than the status does.

        Raises:
            PlatformError: a process has ended by itself, and could not be started again.
        """
        if self._stop.wait(seconds):
            return False
        self._airflow.check()
        if time.monotonic() - self._asked_at > ASK_AIRFLOW_SECONDS and self._runs.can_be_asked():
            # No reason to end: an operator may fix the cause, and clear the run in the UI.
            self._failures = " ".join(map(failed_run, self._runs.failed()))
            self._asked_at = time.monotonic()
        self._live.update(" ".join(filter(None, [doing, self._failures])))
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
    """The message about a stream whose DAG run has failed."""
    return f"The run of stream_load__{pipeline} failed; Airflow's log of its task says why."


@dataclass(frozen=True)
class StreamingEnd:
    """How the streams ended.

    Attributes:
        problem: what went wrong, if anything did.
        cut_short: whether the drain was interrupted, so that events may have landed that are not loaded.
    """

    problem: FreshetError | None
    cut_short: bool


class Streaming:
    """Starts a watching run for each pipeline, lets the workload run, and drains.

    Args:
        home: the installation.
        pipelines: definitions, by name.
        airflow: running.
        warehouse_url: libpq URL of the warehouse.
        workload: started once all drivers run.
        console: shows the live table.
    """

    def __init__(
        self,
        home: Home,
        pipelines: Mapping[str, PipelineDefinition],
        airflow: EmbeddedAirflow,
        warehouse_url: str,
        workload: WorkloadProcesses,
        console: Console,
    ) -> None:
        self._home = home
        self._pipelines = pipelines
        self._airflow = airflow
        self._url = warehouse_url
        self._workload = workload
        self._console = console
        self._not_loading: dict[str, str] = {}  # pipelines that are not loaded, with the reason

    def run(self, course: Course) -> StreamingEnd:
        """Start workload and streams, let the course of events run, until SIGINT, SIGTERM or a failure; then drain."""
        problem: FreshetError | None = None
        address = f"[link={self._airflow.url}]{self._airflow.url}[/link]"
        footer = f"Airflow: {address}   Logs: {escape(str(self._home.logs))}"
        live_status = LiveStatus(self._console, self._url, footer, LandingLook(self._home))
        with self._airflow.api() as api, live_status as live, StopSignal() as stop:
            runs = StreamRuns(api, self._pipelines)
            batches = BatchDags(api, self._pipelines, self._airflow.started_at)
            try:
                runs.wait_until_known()
                batches.pause()  # the streams come first
                runs.start()
                if self._wait_for_drivers(runs, live, stop):
                    batches.start()
                    course(WatchedTime(live, stop, runs, self._airflow, self._workload, self._url))
                self._note_blocked()
            except FreshetError as error:
                problem = error
            with StopSignal() as hurry:
                try:
                    self._workload.stop()
                    self._airflow.check()
                    batches.pause()
                    drained = self._drain(runs, live, hurry)
                    if drained:
                        batches.wait_until_ended()
                except FreshetError as error:
                    problem = problem or error
                    drained = self._drain_without_airflow(live, hurry)
        if problem is None and self._not_loading:
            problem = self._missed()
        return StreamingEnd(problem, cut_short=not drained)

    def _wait_for_drivers(self, runs: StreamRuns, live: LiveStatus, stop: StopSignal) -> bool:
        """Wait until every pipeline has a driver that is watched; returns whether that came before the signal to stop.

        One whose driver fails, or does not come in time, keeps no other from being loaded. One that is blocked by its
        tables has a driver. A drain that came before the watching run had begun would be followed by its start.

        Raises:
            PlatformError: no pipeline has a driver.
        """
        deadline = time.monotonic() + DRIVER_TIMEOUT_SECONDS
        while missing := self._missing(runs):
            self._start_workload()
            given_up = f" Without {', '.join(sorted(self._not_loading))}." if self._not_loading else ""
            live.update(f"The Spark drivers are starting.{given_up}")
            for pipeline in missing.intersection(runs.failed()):
                self._not_loading[pipeline] = f"{failed_run(pipeline)} {self._driver_log(pipeline)}"
            if time.monotonic() > deadline:
                for pipeline in missing - self._not_loading.keys():
                    late = f"The driver of {pipeline} did not start within {DRIVER_TIMEOUT_SECONDS:.0f} s."
                    self._not_loading[pipeline] = f"{late} {self._driver_log(pipeline)}"
            if stop.wait(REFRESH_SECONDS):
                return False
        if self._not_loading.keys() >= set(self._pipelines):
            raise self._missed()
        self._start_workload()
        return True

    def _start_workload(self) -> None:
        """Start it as soon as no driver is waited for: the runs in Airflow, which take longer, find what is loaded."""
        awaited = set(self._pipelines_without_driver()) - self._not_loading.keys()
        if not awaited:
            self._workload.start()

    def _missing(self, runs: StreamRuns) -> set[str]:
        """Pipelines whose driver is still waited for."""
        return {*self._pipelines_without_driver(), *runs.not_watching()} - self._not_loading.keys()

    def _note_blocked(self) -> None:
        """Find out what is not loaded in the end: drivers may have come late, and others be blocked."""
        for pipeline in set(self._pipelines) - set(self._pipelines_without_driver()):
            self._not_loading.pop(pipeline, None)
        with contextlib.closing(connect(self._url)) as connection:
            for status in read_status(connection):
                if status.name in self._pipelines and status.blocked_by:
                    self._not_loading[status.name] = f"{status.name} is blocked: {status.blocked_by}"

    def _missed(self) -> PlatformError:
        """The message about the pipelines that are not loaded."""
        return PlatformError("\n".join(reason for _, reason in sorted(self._not_loading.items())))

    def _drain(self, runs: StreamRuns, live: LiveStatus, hurry: StopSignal) -> bool:
        """Drain all streams through Airflow; returns whether that was finished."""
        runs.start_drain()
        while runs.draining():
            self._airflow.check()
            live.update("Draining: what has landed is being loaded. Ctrl-C again cuts it short.")
            if hurry.wait(REFRESH_SECONDS):
                runs.abandon_unfinished()
                return False
        failed = runs.failed_drains()
        if failed:
            raise PlatformError(f"The drain of {', '.join(failed)} failed; Airflow's logs of its task say why.")
        # The runs that watched the drivers see the end within a second or two.
        deadline = time.monotonic() + WATCHER_TIMEOUT_SECONDS
        while runs.unfinished() and time.monotonic() < deadline and not hurry.wait(REFRESH_SECONDS):
            live.update("The DAG runs are ending.")
        runs.abandon_unfinished()
        return True

    def _drain_without_airflow(self, live: LiveStatus, hurry: StopSignal) -> bool:
        with contextlib.closing(connect(self._url, patience=PATIENCE)) as connection:
            for pipeline in self._pipelines:
                if find_driver(connection, pipeline, self._home) is not None:
                    driver_requests.request_state(connection, pipeline, "draining")
            while any(find_driver(connection, pipeline, self._home) for pipeline in self._pipelines):
                live.update("Draining without Airflow. Ctrl-C again cuts it short.")
                if hurry.wait(REFRESH_SECONDS):
                    return False
        return True

    def _pipelines_without_driver(self) -> list[str]:
        with contextlib.closing(connect(self._url)) as connection:
            return [
                pipeline
                for pipeline in self._pipelines
                if not isinstance(find_driver(connection, pipeline, self._home), DriverRecord)
            ]

    def _driver_log(self, pipeline: str) -> str:
        log = self._home.driver_log(self._pipelines[pipeline].driver_name)
        return f"The end of {log}:\n{log_tail(log)}"
