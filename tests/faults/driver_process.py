"""A real driver in a process of its own, as `freshet load` and Airflow run it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from spark_jobs.settings import HOME_VARIABLE, WAREHOUSE_URL_VARIABLE


class DriverProcess:
    """Runs `stream_load.py` for a pipeline's YAML file.

    Args:
        definition: the YAML file.
        home: FRESHET_HOME.
        url: the warehouse.
        arguments: further ones, such as --once.
    """

    def __init__(self, definition: Path, home: Path, url: str, *arguments: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.log = home / f"driver-{len(list(home.glob('driver-*.log')))}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "spark_jobs.stream_load", str(definition), *arguments],
                env=os.environ | {HOME_VARIABLE: str(home), WAREHOUSE_URL_VARIABLE: url},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kill(self) -> None:
        """SIGKILL the driver; the JVM and the workers that it leaves end by themselves, and are waited for."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.wait()
        _, living = psutil.wait_procs(family, timeout=60)
        assert not living, f"processes outlive their driver: {living}"

    def workers(self) -> list[psutil.Process]:
        """The Python workers that run tasks: children of Spark's worker daemon."""
        living = [
            process
            for process in psutil.Process(self.process.pid).children(recursive=True)
            if process.status() != psutil.STATUS_ZOMBIE
        ]
        daemons = {process.pid for process in living if "worker_daemon" in " ".join(process.cmdline())}
        return [process for process in living if process.ppid() in daemons]

    def wait(self, timeout_seconds: float = 120) -> int:
        """Exit status, once it has ended."""
        return self.process.wait(timeout_seconds)

    def end(self) -> None:
        """Make sure that it is gone."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
