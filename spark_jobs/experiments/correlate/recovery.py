"""How long it takes from kill -9 to the next committed batch, with many tuples that wait for partners."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import numpy as np
import psutil
import psycopg2
import pyarrow as pa
import yaml
from numpy.typing import NDArray

from spark_jobs.errors import FreshetError
from spark_jobs.experiments.bench_server import ContenderRunner
from spark_jobs.experiments.correlate.data import CorrelateCase, columns_of, empty_fact
from spark_jobs.experiments.correlate.freshet_correlation import PIPELINE, bench_content
from spark_jobs.launch.detached_driver import driver_environment
from spark_jobs.launch.session_process import SessionProcess, log_tail, stop_sessions
from spark_jobs.settings import Home
from spark_jobs.workload.landing import land_parquet

BYTES_PER_TUPLE = 250
"""On disk: where it landed, and in the state."""

_AUCTIONS_PER_FILE = 500_000
_BIDS, _STRIDE = 1000, 7919  # a prime: the bids' auctions lie all over the state
_PATIENCE_SECONDS = 600.0
_POLL_SECONDS = 0.05
_GRACE_SECONDS = 30.0
_COMMITTED = """
    SELECT coalesce(sum(arrived), 0)::bigint, extract(epoch FROM max(closed_at))::float8
    FROM freshet.batch WHERE state = 'committed'
"""
_WAITING = """
    SELECT sum(tuples)::bigint FROM freshet.batch_fate
    WHERE fate = 'waiting' AND batch_no = (SELECT max(batch_no) FROM freshet.batch WHERE state = 'committed')
"""


def measure_recovery(runner: ContenderRunner, waiting: int) -> dict[str, Any]:
    """Kill a driver, then the workers of the next one; new bids have landed by then, on auctions that wait.

    A new driver is started at once, as a run in Airflow does.

    Args:
        runner: has the server.
        waiting: auctions that wait for bids.

    Returns:
        how many waited, and the seconds from each kill to the next committed batch.

    Raises:
        FreshetError: nothing was committed for ten minutes, or the driver has ended by itself.
    """
    run = _Recovery(runner)
    try:
        run.start_driver()
        runner.say(f"having {waiting:,} auctions wait")
        run.land_auctions(waiting)
        kills = {"driver": run.kill_driver, "workers": run.kill_workers}
        return {"waiting": run.waiting(), "seconds": {name: run.seconds_after(kill) for name, kill in kills.items()}}
    finally:
        run.end()


class _Recovery:
    """A pipeline whose driver is killed.

    Args:
        runner: has the server.
    """

    def __init__(self, runner: ContenderRunner) -> None:
        case = CorrelateCase("fits", 1, 0, 1.0)
        self._url, self._home = runner.warehouse_url, Home(runner.folder / "recovery")
        self._events = self._home.root / "events"
        for stream in case.streams:
            (self._events / stream).mkdir(parents=True)
        content = bench_content(case, self._events)
        content["correlate"]["within"] = "1d"  # none expires meanwhile
        self._file = self._home.root / f"{PIPELINE}.yaml"
        self._file.write_text(yaml.safe_dump(content))
        empty_fact(self._url, case)
        self._auctions = self._bids = 0
        self._drivers: list[SessionProcess] = []

    def start_driver(self) -> None:
        """Start one; the former one may not have ended yet."""
        name = f"driver-{len(self._drivers)}"
        self._log = self._home.root / f"{name}.log"
        driver = SessionProcess.start(
            name,
            [sys.executable, "-m", "spark_jobs.stream_load", str(self._file)],
            environment=driver_environment(self._home, self._url),
            folder=self._home.root,
            log=self._log,
            record=self._home.root / f"{name}.json",
        )
        self._drivers.append(driver)

    def land_auctions(self, count: int) -> None:
        """Have auctions land, and wait until all are committed."""
        for first in range(0, count, _AUCTIONS_PER_FILE):
            ids = np.arange(first, min(first + _AUCTIONS_PER_FILE, count))
            self._land("auctions", first, [ids, (ids % 5).astype(np.int32), ids % 1000])
        self._auctions = count
        self._await_committed()

    def land_bids(self) -> None:
        """Have bids land on auctions all over the state."""
        ids = np.arange(self._bids, self._bids + _BIDS)
        self._land("bids", self._bids, [ids, ids * _STRIDE % self._auctions, ids, ids])
        self._bids += _BIDS

    def seconds_after(self, kill: Callable[[], None]) -> float:
        """Kill, have bids land, and wait for them; how long that took, by the time of their commit."""
        self.land_bids()
        self._await_committed()  # all is well before
        killed_at = time.time()
        kill()
        self.land_bids()
        return self._await_committed() - killed_at

    def kill_driver(self) -> None:
        """SIGKILL the driver; its Java machine and its workers end by themselves. Start the next one."""
        self._drivers[-1].send(signal.SIGKILL)
        self.start_driver()

    def kill_workers(self) -> None:
        """SIGKILL the processes that keep the state, and what they are forked from."""
        for member in self._drivers[-1].members():
            with suppress(psutil.Error):
                if member.name() != "java" and "worker_daemon" in " ".join(member.cmdline()):
                    member.kill()

    def waiting(self) -> int:
        """Tuples that are in the state, and in no fact yet."""
        with closing(psycopg2.connect(self._url)) as connection, connection.cursor() as cursor:
            cursor.execute(_WAITING)
            [(count,)] = cursor.fetchall()
        return int(count)

    def end(self) -> None:
        """End all processes."""
        stop_sessions(self._drivers, _GRACE_SECONDS)

    def _land(self, stream: str, number: int, columns: list[NDArray[np.generic]]) -> None:
        names = list(columns_of(stream))
        moments = np.full(len(columns[0]), int(time.time() * 1e6))
        arrays = [*map(pa.array, columns), pa.array(moments).cast(pa.timestamp("us", "UTC"))]
        land_parquet(self._events / stream, f"{stream}-{number:012}.parquet", pa.table(arrays, names))

    def _await_committed(self) -> float:
        """Wait for a commit of all that has landed; when that was, in seconds since 1970."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        with closing(psycopg2.connect(self._url)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            while time.monotonic() < deadline and self._drivers[-1].is_running():
                cursor.execute(_COMMITTED)
                [(arrived, closed_at)] = cursor.fetchall()
                if arrived == self._auctions + self._bids:
                    return float(closed_at)
                time.sleep(_POLL_SECONDS)
        raise FreshetError(f"Nothing is committed any more. The driver's log ends with:\n{log_tail(self._log)}")
