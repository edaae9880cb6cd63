"""A validation as a process of its own, from the side of the process that starts it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import IO, Any

from pydantic import BaseModel

from spark_jobs.errors import FreshetError, PlatformError, WarehouseUnavailableError
from spark_jobs.launch.detached_driver import driver_environment
from spark_jobs.settings import PROJECT_ROOT, Home
from spark_jobs.shown_text import shown_text
from spark_jobs.validation.selection import Selection


class Request(BaseModel):
    """What the process is to do: see `validate_facts`."""

    pipeline: str
    selection: Selection
    airflow_run: str | None = None


class Answer(BaseModel):
    """What came of it.

    Attributes:
        report: `Report.to_json` of the validation.
        unavailable: why the warehouse could not be reached: worth another try.
        refused: why there was no validation, nor will be until that is fixed.
    """

    report: dict[str, Any] | None = None
    unavailable: str | None = None
    refused: str | None = None


class ValidationProcess:
    """One validation in a process of its own.

    Args:
        home: the installation.
        warehouse_url: libpq URL of the warehouse; it reaches the process through its environment alone, into
            which nothing of Airflow's own is passed on.
        log: takes each line that the process writes meanwhile.
    """

    def __init__(self, home: Home, warehouse_url: str, log: Callable[[str], object]) -> None:
        self._environment = driver_environment(home, warehouse_url)
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def run(self, request: Request) -> dict[str, Any]:
        """Validate.

        Returns:
            `Report.to_json` of the validation.

        Raises:
            WarehouseUnavailableError: the warehouse can't be reached, or went away.
            FreshetError: the request can't be met: no such pipeline, a faulty definition.
            PlatformError: the process was ended, or ended without an answer.
        """
        command = [sys.executable, "-m", "spark_jobs.validation"]
        with subprocess.Popen(
            command,
            cwd=PROJECT_ROOT,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            self._process = process
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            teller = Thread(target=self._tell, args=[process.stderr])
            teller.start()
            with suppress(BrokenPipeError):  # it has ended already: its status tells why
                process.stdin.write(request.model_dump_json())
                process.stdin.close()
            output = process.stdout.read()
            teller.join()
        if process.returncode < 0:
            raise PlatformError(
                f"The validation of {request.pipeline} was cut off: signal {-process.returncode} ended its process. "
                "That says nothing about the facts; what it was to look at is validated again."
            )
        if process.returncode != 0:
            raise PlatformError(
                f"The validation of {request.pipeline} ended with status {process.returncode} and without a result; "
                "the log says more. Nothing counts as validated."
            )
        answer = Answer.model_validate_json(output)
        if answer.unavailable is not None:
            raise WarehouseUnavailableError(answer.unavailable)
        if answer.report is None:
            raise FreshetError(answer.refused)
        return answer.report

    def end(self) -> None:
        """End the process, if it runs; what it was to validate is validated again."""
        if self._process is not None:
            self._process.kill()

    def _tell(self, output: IO[str]) -> None:
        for line in output:
            self._log(shown_text(line.rstrip()))
