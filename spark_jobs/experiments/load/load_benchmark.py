"""`freshet bench load`: runs the contenders in turn, on a server of its own, and reports medians."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
from rich.table import Table

from spark_jobs.errors import PlatformError
from spark_jobs.experiments.load.contender_run import CONTENDERS, JDBC_URL_VARIABLE
from spark_jobs.experiments.load.data import LoadCase, make_relation, write_events
from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres
from spark_jobs.settings import Home
from spark_jobs.warehouse.migration import migrate

# (a) to (d) of the comparison.
LABELS = {
    "freshet": "a  Freshet, end to end",
    "spark_cached": "b  Spark join, R cached whole",
    "spark_rereading": "c  Spark join, R read per batch",
    "copy": "d  limit: COPY of joined rows",
}
SIZES = (200_000, 2_000_000, 10_000_000)
FRESHNESS_SECONDS = 40.0
_BYTES_PER_RUN = 3 << 30


def run_load_benchmark(
    home: Home, sizes: list[int], events: int, repetitions: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Measure all contenders for all sizes of R.

    Args:
        home: the installation; the benchmark's server and data lie in a scratch folder of it, removed at the end.
        sizes: tuples of R.
        events: stream tuples measured in each run.
        repetitions: runs of each contender, one contender after the other in each round.
        say: takes a line of progress.

    Returns:
        For each size the contenders' medians and ranges, the ratios, and the freshness at half of Freshet's rate.
    """
    home.root.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(home.root).free
    needed = _BYTES_PER_RUN + 300 * max(sizes) + 400 * events
    if free < needed:
        raise PlatformError(f"The benchmark needs about {needed >> 30} GiB in {home.root}; {free >> 30} GiB are free.")
    with tempfile.TemporaryDirectory(prefix="bench-", dir=home.root) as scratch:
        folder, port = Path(scratch), _free_port()
        with EmbeddedPostgres(folder / "postgres", port=port).use() as server:
            migrate(server.url())
            password = _new_password(server.url())
            jdbc_url = f"jdbc:postgresql://127.0.0.1:{port}/postgres?user=postgres&password={password}"
            run = _Runner(folder, server.url(), jdbc_url, say)
            return {
                "events": events,
                "repetitions": repetitions,
                "cases": [_measure_case(LoadCase(size, events), repetitions, run) for size in sizes],
            }


class _Runner:
    """Starts contenders as processes, each with a scratch folder of its own."""

    def __init__(self, folder: Path, warehouse_url: str, jdbc_url: str, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.warehouse_url = warehouse_url
        self._jdbc_url = jdbc_url
        self.say = say
        self._runs = 0

    def __call__(self, name: str, case: LoadCase, *options: str) -> dict[str, Any] | None:
        """The run's result; None if it failed, with the reason said."""
        self._runs += 1
        scratch = self.folder / f"run-{self._runs}"
        command = [
            *(sys.executable, "-m", "spark_jobs.experiments.load.contender_run", name),
            *(json.dumps(dataclasses.asdict(case)), str(scratch), self.warehouse_url, *options),
        ]
        # Everybody may read command lines, and this URL has a password in it.
        environment = {**os.environ, JDBC_URL_VARIABLE: self._jdbc_url}
        finished = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        shutil.rmtree(scratch, ignore_errors=True)
        if finished.returncode:
            self.say(f"{name} could not be run, and is left out: {finished.stderr.strip()[-1500:]}")
            return None
        result: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
        return result


def _measure_case(case: LoadCase, repetitions: int, run: _Runner) -> dict[str, Any]:
    run.say(f"R = {case.relation_rows:,}: making R and {case.warm_up + case.events:,} events")
    make_relation(run.warehouse_url, case)
    write_events(case, run.folder / f"events-{case.relation_rows}")
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTENDERS}
    for repetition in range(repetitions):
        # Each starts a round in its turn: what one leaves in the caches must not always serve the same next one.
        for name in (*CONTENDERS[repetition % len(CONTENDERS) :], *CONTENDERS[: repetition % len(CONTENDERS)]):
            if repetition and not runs[name]:
                continue  # it can't be run here, as was said
            result = run(name, case)
            if result is not None:
                runs[name].append(result)
                run.say(f"R = {case.relation_rows:,}: {LABELS[name]}: {result['facts_per_second']:,.0f} facts/s")
    contenders = {name: _summary(results) for name, results in runs.items() if results}
    summary = {"relation_rows": case.relation_rows, "memory_bytes": case.memory_bytes, "contenders": contenders}
    if "freshet" in contenders:
        own = contenders["freshet"]["facts_per_second"]["median"]
        summary["ratios"] = {
            name: own / other["facts_per_second"]["median"] for name, other in contenders.items() if name != "freshet"
        }
        summary["freshness"] = run("freshness", case, str(own / 2), str(FRESHNESS_SECONDS))
    shutil.rmtree(run.folder / f"events-{case.relation_rows}")
    return summary


def _summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    figures = ("facts_per_second", "cpu_seconds_per_million", "peak_worker_bytes", "peak_java_bytes")
    return {
        figure: {
            "median": statistics.median(result[figure] for result in results),
            "low": min(result[figure] for result in results),
            "high": max(result[figure] for result in results),
        }
        for figure in figures
    } | {"runs": len(results), "detail": results[-1]["detail"]}


def render(result: dict[str, Any]) -> Table:
    """The result as a table to read."""
    table = Table(title=f"Loading {result['events']:,} events, medians of {result['repetitions']} interleaved runs")
    for heading in ("R", "contender", "facts/s", "a / it", "CPU s per million", "workers MiB", "Java MiB"):
        table.add_column(heading, justify="left" if heading == "contender" else "right")
    for case in result["cases"]:
        for name, figures in case["contenders"].items():
            ratio = case.get("ratios", {}).get(name)
            peaks = [figures[peak]["median"] / 2**20 for peak in ("peak_worker_bytes", "peak_java_bytes")]
            table.add_row(
                f"{case['relation_rows']:,}",
                LABELS[name],
                f"{figures['facts_per_second']['median']:,.0f}",
                f"{ratio:.2f}" if ratio else "",
                f"{figures['cpu_seconds_per_million']['median']:.2f}",
                *(f"{peak:.0f}" if peak else "" for peak in peaks),
            )
        fresh = case.get("freshness")
        if fresh:
            text = f"p50 {fresh['p50_seconds']:.2f} s, p99 {fresh['p99_seconds']:.2f} s"
            table.add_row("", f"freshness of a at {fresh['events_per_second']:,.0f}/s: {text}")
        table.add_section()
    return table


def _new_password(url: str) -> str:
    """A password for the superuser, which JDBC needs."""
    password = secrets.token_urlsafe()
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("ALTER ROLE postgres PASSWORD %s", [password])
    return password


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
