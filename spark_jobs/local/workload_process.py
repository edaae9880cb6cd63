"""The workload as processes in the background: `freshet generate`."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from pathlib import Path

from spark_jobs.errors import PlatformError
from spark_jobs.launch.session_process import SessionProcess, log_tail, stop_sessions
from spark_jobs.settings import HOME_VARIABLE, Home

OF_TPCH = frozenset({"orders", "order_lines", "fulfilment"})
"""The pipelines that it writes TPC-H's events for; these need its master data."""

PIPELINES = OF_TPCH | {"auction_bids"}
"""All that it writes events for."""

STOP_GRACE_SECONDS = 10.0
_ORDERS, _AUCTIONS = "workload", "auctions"


class WorkloadProcesses:
    """Let the events of the shipped pipelines land until they are stopped; no process where there is no such pipeline.

    Args:
        home: the installation.
        pipelines: names of those that are loaded.
        scale: TPC-H scale factor of the master data.
        rate: mean number of orders per second, and as many of Nexmark's events.
        steady: events arrive evenly, not in bursts.
        servers: brokers of Kafka, to whose topics orders and lines are written; None: they land as files.
    """

    def __init__(
        self,
        home: Home,
        pipelines: Collection[str],
        scale: float,
        rate: float,
        *,
        steady: bool = False,
        servers: str | None = None,
    ) -> None:
        self._home = home
        pace = ["--rate", str(rate), *(["--steady"] if steady else [])]
        self._options: dict[str, list[str]] = {}
        if not OF_TPCH.isdisjoint(pipelines):
            orders = ["fulfilment" if "fulfilment" in pipelines else "orders", "--scale", str(scale)]
            self._options[_ORDERS] = [*orders, *pace, *([] if servers is None else ["--kafka", servers])]
        if "auction_bids" in pipelines:
            self._options[_AUCTIONS] = ["auction_bids", *pace]
        left = [SessionProcess.recorded(name, self._record(name)) for name in (_ORDERS, _AUCTIONS)]
        self._processes = [process for process in left if process is not None]

    def start(self) -> None:
        """Start them, unless they were started, or left behind."""
        if self._processes:
            return
        for name, options in self._options.items():
            process = SessionProcess.start(
                name,
                [sys.executable, "-m", "spark_jobs.cli", "generate", *options],
                environment={**os.environ, HOME_VARIABLE: str(self._home.root)},
                folder=self._home.root,
                log=self._home.logs / f"{name}.log",
                record=self._record(name),
            )
            self._processes.append(process)

    def check(self) -> None:
        """Raise a PlatformError if one has ended by itself."""
        for process in self._processes:
            if not process.is_running():
                log = self._home.logs / f"{process.name}.log"
                raise PlatformError(f"The workload ended by itself. The end of {log}:\n{log_tail(log)}")

    def stop(self) -> None:
        """Stop them, or those that a killed `up` has left behind; nothing happens if there are none."""
        stop_sessions(self._processes, STOP_GRACE_SECONDS)
        self._processes = []

    def _record(self, name: str) -> Path:
        return self._home.processes / f"{name}.json"
