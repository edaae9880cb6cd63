"""A PostgreSQL server of a benchmark's own, and contenders that run against it, each in a process of its own."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psycopg2

from spark_jobs.errors import PlatformError
from spark_jobs.settings import Home

T = TypeVar("T", bound=Hashable)

JDBC_URL_VARIABLE = "FRESHET_BENCH_JDBC_URL"
"""Environment variable by which a contender gets the warehouse's JDBC URL, password included."""


class ContenderRunner:
    """Starts contenders as processes, each with a scratch folder of its own.

    Args:
        folder: where the scratch folders are made.
        warehouse_url: libpq URL.
        say: takes a line of progress.
        environment: of these processes.

    Attributes:
        folder: as it was given.
        warehouse_url: as it was given.
        say: as it was given.
        environment: as it was given; what is added counts for the processes that are started afterwards.
    """

    def __init__(
        self, folder: Path, warehouse_url: str, say: Callable[[str], None], environment: dict[str, str]
    ) -> None:
        self.folder = folder
        self.warehouse_url = warehouse_url
        self.say = say
        self.environment = environment
        self._runs = 0

    def __call__(self, module: str, name: str, case: dict[str, Any], *options: str) -> dict[str, Any] | None:
        """The run's result; None if it failed, with the reason said.

        Args:
            module: run as `python -m module name case folder warehouse_url options...`; it prints the result as JSON
                on its last line.
            name: the contender's.
            case: the benchmark's size, as JSON can have it.
            options: more arguments.
        """
        self._runs += 1
        scratch = self.folder / f"run-{self._runs}"
        command = [sys.executable, "-m", module, name, json.dumps(case), str(scratch), self.warehouse_url, *options]
        finished = subprocess.run(command, capture_output=True, text=True, check=False, env=self.environment)
        shutil.rmtree(scratch, ignore_errors=True)
        if finished.returncode:
            self.say(f"{name} could not be run, and is left out: {finished.stderr.strip()[-1500:]}")
            return None
        result: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
        return result

    def interleaved(
        self,
        contenders: Sequence[T],
        repetitions: int,
        run: Callable[[T], dict[str, Any] | None],
        minutes: float | None = None,
    ) -> dict[T, list[dict[str, Any]]]:
        """The results of all runs, by contender; those that can't be run here are left out.

        Args:
            contenders: each starts a round in its turn: what one leaves in the caches must not always serve the same
                next one.
            repetitions: rounds.
            run: one run of a contender; None if it failed.
            minutes: no round is begun that would end later, if it took as long as the last one; None: all are run.
        """
        runs: dict[T, list[dict[str, Any]]] = {name: [] for name in contenders}
        started = time.monotonic()
        for repetition in range(repetitions):
            began = time.monotonic()
            first = repetition % len(contenders)
            for name in (*contenders[first:], *contenders[:first]):
                if repetition and not runs[name]:
                    continue  # it can't be run here, as was said
                result = run(name)
                if result is not None:
                    runs[name].append(result)
            ended = time.monotonic()
            if minutes is not None and 2 * ended - began - started > 60 * minutes and repetition + 1 < repetitions:
                self.say(f"{repetition + 1} of {repetitions} rounds fit into {minutes:g} minutes")
                break
        return {name: results for name, results in runs.items() if results}


@contextmanager
def bench_server(home: Home, needed_bytes: int, say: Callable[[str], None]) -> Iterator[ContenderRunner]:
    """Run a server with the warehouse's schema in a scratch folder of the home, which is removed at the end.

    Args:
        home: the installation.
        needed_bytes: what has to be free on its disk.
        say: takes a line of progress.

    Raises:
        PlatformError: the disk is too small.
    """
    # Here, since contenders import this module, and the processes that they start do: theirs is the time it takes.
    from spark_jobs.control.migration import migrate
    from spark_jobs.launch.kept_bytecode import keeping_bytecode
    from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres

    home.root.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(home.root).free
    if free < needed_bytes:
        needed = f"{needed_bytes >> 30} GiB in {home.root}"
        raise PlatformError(f"The benchmark needs about {needed}; {free >> 30} GiB are free.")
    with tempfile.TemporaryDirectory(prefix="bench-", dir=home.root) as scratch:
        folder, port = Path(scratch), _free_port()
        with EmbeddedPostgres(folder / "postgres", port=port).use() as server:
            migrate(server.url())
            password = _new_password(server.url())
            jdbc_url = f"jdbc:postgresql://127.0.0.1:{port}/postgres?user=postgres&password={password}"
            # By it, for everybody may read command lines: this URL has a password in it.
            environment = {**keeping_bytecode(os.environ, home), JDBC_URL_VARIABLE: jdbc_url}
            yield ContenderRunner(folder, server.url(), say, environment)


def medians(results: Sequence[dict[str, Any]], figures: Sequence[str]) -> dict[str, Any]:
    """Median, lowest and highest value of each figure over the runs of a contender, and the last run's detail."""
    return {
        figure: {
            "median": statistics.median(result[figure] for result in results),
            "low": min(result[figure] for result in results),
            "high": max(result[figure] for result in results),
        }
        for figure in figures
    } | {"runs": len(results), "detail": results[-1]["detail"]}


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
