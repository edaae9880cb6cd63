"""`freshet bench pipelines`: many small pipelines in one driver, idle and with an event now and then.

What they take of the machine is told by process: processor seconds, memory that is not shared or its share of it, and
connections. What else runs on the machine does not count, but makes facts late.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import psycopg2
from rich.table import Table

from spark_jobs.control.driver_requests import request_state
from spark_jobs.errors import FreshetError
from spark_jobs.experiments.bench_server import bench_server
from spark_jobs.experiments.load.run_result import postmaster
from spark_jobs.experiments.pipelines.small_pipelines import land_events, make_pipelines
from spark_jobs.launch.detached_driver import driver_environment
from spark_jobs.launch.session_process import log_tail
from spark_jobs.ledger.latency import percentile, total
from spark_jobs.ledger.status.pipeline_status import read_status
from spark_jobs.settings import PIPELINES_VARIABLE, Home

_BYTES = 3 << 30
_START_SECONDS = 600.0
_SETTLING_SECONDS = 20.0
_POLL_SECONDS = 0.5
_CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
_LATENCIES = "SELECT event_latency FROM freshet.batch WHERE state = 'committed' AND started_at > to_timestamp(%s)"
_COUNTS = "SELECT count(*), coalesce(sum(arrived), 0)::bigint, coalesce(sum(facts), 0)::bigint FROM freshet.batch"


def run_pipelines_benchmark(
    home: Home, pipelines: int, rate: float, seconds: float, say: Callable[[str], None]
) -> dict[str, Any]:
    """Run a driver of many pipelines, without events and with them.

    Args:
        home: the installation; server and files lie in a scratch folder of it, removed at the end.
        pipelines: how many.
        rate: events a second that land for each.
        seconds: how long to measure, without events and with them.
        say: takes a line of progress.

    Raises:
        FreshetError: not all became ready, or what landed is not in the fact tables.
    """
    with bench_server(home, _BYTES, say) as runner:
        scratch, url = Home(runner.folder / "home"), runner.warehouse_url
        definitions = make_pipelines(pipelines, runner.folder / "pipelines", url)
        names = [definition.name for definition in definitions]
        driver = _Driver(names[0], scratch, url, runner.folder / "pipelines")
        try:
            ready = driver.await_ready(pipelines)
            say(f"{pipelines} pipelines are ready after {ready:.0f} s")
            time.sleep(_SETTLING_SECONDS)
            idle = driver.measure(seconds, lambda: None)
            say(f"idle: {idle['cpu_cores']:.2f} cores")
            landing = [scratch.landing(name) for name in names]
            loaded = _load(driver, landing, rate, seconds)
            status = driver.status_seconds()
            counts = driver.drain(names)
            loaded |= driver.freshness(loaded.pop("began"))  # what waited still counts, too
        finally:
            driver.end()
    return {"pipelines": pipelines, "rate": rate, "ready_seconds": ready, "idle": idle, "loaded": loaded} | {
        "status_seconds": status,
        **counts,
    }


def _load(driver: _Driver, landing: Sequence[Path], rate: float, seconds: float) -> dict[str, Any]:
    """Let events land while it measures; the first seconds don't count."""
    landed, due = 0, time.monotonic()

    def feed() -> None:
        nonlocal landed, due
        if time.monotonic() >= due:  # one of each at a time: what is late must not make the window longer
            land_events(landing, landed, 1)
            landed, due = landed + 1, due + 1 / rate

    driver.measure(_SETTLING_SECONDS, feed)
    began = time.time()
    measured = driver.measure(seconds, feed)
    return measured | {"began": began, "events": landed * len(landing)}


class _Driver:
    """A driver of all pipelines, in a process of its own as Airflow launches it, but for spark-submit."""

    def __init__(self, first: str, home: Home, url: str, pipelines: Path) -> None:
        home.root.mkdir()
        self._log = home.root / "driver.log"
        self._connection = psycopg2.connect(url)
        self._connection.autocommit = True
        self._server = postmaster(url)
        self._began = time.monotonic()
        with self._log.open("w") as log:
            self._process = psutil.Popen(
                [sys.executable, "-m", "spark_jobs.stream_load", first],
                env=driver_environment(home, url) | {PIPELINES_VARIABLE: str(pipelines)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def await_ready(self, pipelines: int) -> float:
        """Seconds from its start until it loads all pipelines."""
        running = "SELECT count(*) FROM freshet.driver WHERE state = 'running' AND blocked_by IS NULL"
        while self._one(running) != (pipelines,):
            if self._process.poll() is not None or time.monotonic() - self._began > _START_SECONDS:
                raise FreshetError(
                    f"Not all pipelines became ready. The driver's log ends with:\n{log_tail(self._log)}"
                )
            time.sleep(_POLL_SECONDS)
        return time.monotonic() - self._began

    def measure(self, seconds: float, meanwhile: Callable[[], None]) -> dict[str, Any]:
        """Let time go by, and tell what the driver and the server took of the machine."""
        before, began = self._cpu_seconds(), time.monotonic()
        connections = memory = 0
        sampled = began
        while (now := time.monotonic()) - began < seconds:
            meanwhile()
            if now - sampled > 5.0:
                sampled = now
                connections = max(connections, *self._one(_CONNECTIONS))
                memory = max(memory, sum(_memory(process) for process in self._processes()))
            time.sleep(0.02)
        spent, took = self._cpu_seconds() - before, time.monotonic() - began
        return {
            "cpu_cores": spent.total() / took,
            "cpu_seconds_by_process": {kind: round(used, 1) for kind, used in spent.items()},
            "cpu_seconds_a_minute_and_pipeline": spent.total() / took * 60 / self._pipelines(),
            "most_connections": connections,
            "most_memory_bytes": memory,
        }

    def freshness(self, began: float) -> dict[str, float | None]:
        """Percentiles of the seconds from an event to its commit, of batches since a moment."""
        with self._connection.cursor() as cursor:
            cursor.execute(_LATENCIES, [began])
            batches = [histogram for (histogram,) in cursor.fetchall()]
        latencies = total(batches)
        return {"p50_seconds": percentile(latencies, 0.5), "p99_seconds": percentile(latencies, 0.99)} | {
            "batches": len(batches)
        }

    def status_seconds(self) -> float:
        """Seconds that the status of all pipelines takes, for who asks for the first time."""
        began = time.perf_counter()
        read_status(self._connection)
        return time.perf_counter() - began

    def drain(self, names: Sequence[str]) -> dict[str, int]:
        """Have all loaded that has landed; how much that was."""
        for name in names:
            request_state(self._connection, name, "draining")
        if self._process.wait(_START_SECONDS):
            raise FreshetError(f"The driver failed:\n{log_tail(self._log)}")
        batches, arrived, facts = self._one(_COUNTS)
        if arrived != facts:
            raise FreshetError(f"{arrived} events arrived, {facts} became facts.")
        return {"all_batches": batches, "facts": facts}

    def end(self) -> None:
        """Make sure that it is gone."""
        self._connection.close()
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(60)

    def _pipelines(self) -> int:
        return int(self._one("SELECT count(*) FROM freshet.pipeline")[0])

    def _one(self, query: str) -> tuple[Any, ...]:
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            row = cursor.fetchone()
        assert row is not None
        return row

    def _processes(self) -> list[psutil.Process]:
        roots = (self._process, self._server)
        return [process for root in roots for process in (root, *root.children(recursive=True))]

    def _cpu_seconds(self) -> Counter[str]:
        """By kind of process, with those of its children that have ended."""
        spent: Counter[str] = Counter()
        for process in self._processes():
            try:
                times, kind = process.cpu_times(), _kind(process, self._process.pid)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            spent[kind] += times.user + times.system + times.children_user + times.children_system
        return spent


def _kind(process: psutil.Process, driver: int) -> str:
    name = process.name()
    return (
        "server"
        if name.startswith("postgres")
        else "java"
        if name == "java"
        else ("driver" if process.pid == driver else "workers")
    )


def _memory(process: psutil.Process) -> int:
    """Bytes: of what is shared its share."""
    try:
        return int(process.memory_full_info().pss)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0


def render(result: dict[str, Any]) -> Table:
    """The result as a table to read."""
    title = (
        f"{result['pipelines']} pipelines in one driver, {os.cpu_count()} cores; ready {result['ready_seconds']:.0f} s"
    )
    table = Table(title=title)
    for heading in ("", "cores", "CPU s a minute and pipeline", "connections", "MiB", "p50", "p99", "batches"):
        table.add_column(heading, justify="right")
    for name in ("idle", "loaded"):
        part = result[name]
        table.add_row(
            "idle" if name == "idle" else f"{result['rate']:g} events/s each",
            f"{part['cpu_cores']:.2f}",
            f"{part['cpu_seconds_a_minute_and_pipeline']:.2f}",
            str(part["most_connections"]),
            f"{part['most_memory_bytes'] / 2**20:,.0f}",
            f"{part['p50_seconds']:.2f} s" if part.get("p50_seconds") else "",
            f"{part['p99_seconds']:.2f} s" if part.get("p99_seconds") else "",
            str(part.get("batches", "")),
        )
    table.caption = f"status of all: {result['status_seconds']:.2f} s"
    return table
