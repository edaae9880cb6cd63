"""A process in a session of its own, logged to a file and recorded on disk: it can be ended whole, and found again.

The record outlives whoever started the process: after a crash the next start reads it and ends what was left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from spark_jobs.errors import PlatformError
from spark_jobs.local.process_identity import ProcessIdentity

POLL_SECONDS = 0.05
KILL_TIMEOUT_SECONDS = 10.0


class SessionProcess:
    """A process that leads a session.

    Attributes:
        name: what logs and messages call it.
        identity: the session's leader.
        record: the file that remembers the identity until the session has ended.
    """

    def __init__(
        self, name: str, identity: ProcessIdentity, record: Path, child: subprocess.Popen[bytes] | None = None
    ) -> None:
        self.name = name
        self.identity = identity
        self.record = record
        self._child = child

    @classmethod
    def start(
        cls, name: str, command: Sequence[str], *, environment: Mapping[str, str], folder: Path, log: Path, record: Path
    ) -> SessionProcess:
        """Start the command in a folder, without a terminal, its output appended to the log.

        Raises:
            PlatformError: the program can't be executed.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            try:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=dict(environment),
                    cwd=folder,
                    start_new_session=True,
                )
            except OSError as error:
                raise PlatformError(f"{name} could not be started: {command[0]}: {error.strerror}.") from error
        identity = ProcessIdentity.of(child.pid)
        identity.write(record)
        return cls(name, identity, record, child)

    @classmethod
    def recorded(cls, name: str, record: Path) -> SessionProcess | None:
        """The process that a record names, dead or alive; None without a readable record."""
        identity = ProcessIdentity.read(record)
        return cls(name, identity, record) if identity else None

    def is_running(self) -> bool:
        """Whether the session's leader runs."""
        # A child stays in the process table until it is reaped: polling does that.
        return self._child.poll() is None if self._child else self.identity.is_alive()

    def exit_status(self) -> int | None:
        """How a child of this process ended (negative: by which signal); None while it runs."""
        return self._child.poll() if self._child else None

    def members(self) -> list[psutil.Process]:
        """Living processes of the session: the leader and what it started, or has left behind."""
        return self.identity.session_members()

    def send(self, number: signal.Signals) -> None:
        """Send the leader a signal; nothing happens if it has ended."""
        if self.is_running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.identity.process_id, number)


def stop_sessions(sessions: Iterable[SessionProcess], grace_seconds: float) -> None:
    """End sessions side by side: ask their leaders, wait, kill what is left, and see to it that nothing is.

    Args:
        sessions: running or ended.
        grace_seconds: how long the leaders may take to end by themselves, all together.

    Raises:
        PlatformError: a process could not be killed.
    """
    sessions = list(sessions)
    for session in sessions:
        session.send(signal.SIGTERM)
    _wait_until(lambda: not any(session.is_running() for session in sessions), grace_seconds)
    for session in sessions:
        for member in session.members():
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
    _wait_until(
        lambda: not any(session.is_running() or session.members() for session in sessions), KILL_TIMEOUT_SECONDS
    )
    for session in sessions:
        left = session.members()
        if left:
            ids = ", ".join(str(process.pid) for process in left)
            raise PlatformError(f"{session.name} could not be ended: end these processes by hand: {ids}.")
        session.record.unlink(missing_ok=True)


def _wait_until(condition: Callable[[], bool], timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
