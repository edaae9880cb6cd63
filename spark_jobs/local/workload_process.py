"""The workload as a process in the background: `freshet generate`."""

from __future__ import annotations

import os
import sys

from spark_jobs.errors import PlatformError
from spark_jobs.local.session_process import SessionProcess, log_tail, stop_sessions
from spark_jobs.settings import HOME_VARIABLE, Home

# The pipelines that it writes events for.
PIPELINES = frozenset({"orders", "order_lines", "fulfilment"})
STOP_GRACE_SECONDS = 10.0
_NAME = "workload"


class WorkloadProcess:
    """Lets TPC-H orders and their lines land until it is stopped.

    Args:
        home: the installation.
        scale: TPC-H scale factor of the master data.
        rate: mean number of orders per second.
        steady: orders arrive evenly, not in bursts.
        fulfilment: payments and shipments of the orders land, too.
    """

    def __init__(
        self, home: Home, scale: float, rate: float, *, steady: bool = False, fulfilment: bool = False
    ) -> None:
        self._home = home
        self._options = ["fulfilment" if fulfilment else "orders"]
        self._options += ["--scale", str(scale), "--rate", str(rate), *(["--steady"] if steady else [])]
        self._log = home.logs / f"{_NAME}.log"
        self._record = home.processes / f"{_NAME}.json"
        self._process = SessionProcess.recorded(_NAME, self._record)

    @property
    def is_started(self) -> bool:
        """Whether it was started, and not stopped."""
        return self._process is not None

    def start(self) -> None:
        """Start it."""
        self._process = SessionProcess.start(
            _NAME,
            [sys.executable, "-m", "spark_jobs.cli", "generate", *self._options],
            environment={**os.environ, HOME_VARIABLE: str(self._home.root)},
            folder=self._home.root,
            log=self._log,
            record=self._record,
        )

    def check(self) -> None:
        """Raise a PlatformError if it has ended by itself."""
        if self._process and not self._process.is_running():
            raise PlatformError(f"The workload ended by itself. The end of {self._log}:\n{log_tail(self._log)}")

    def stop(self) -> None:
        """Stop it, or one that a killed `up` has left behind; nothing happens if there is none."""
        if self._process is not None:
            stop_sessions([self._process], STOP_GRACE_SECONDS)
            self._process = None
