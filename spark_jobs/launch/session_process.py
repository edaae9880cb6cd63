"""A process in a session of its own, logged to a file and recorded on disk: it can be ended whole, and found again.

The record outlives the process that wrote it: after a crash the next start reads it and ends what was left. It tells
the process from a later one that was given the same id.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from spark_jobs.errors import PlatformError
from spark_jobs.private_files import write_private

# The start time is computed from the boot time, which moves a little when the clock is set.
START_TIME_TOLERANCE_SECONDS = 2.0

POLL_SECONDS = 0.05
KILL_TIMEOUT_SECONDS = 10.0
_TAIL_BYTES = 3000


@dataclass(frozen=True)
class ProcessIdentity:
    """A process on this host.

    Attributes:
        process_id: the id, unique among living processes only.
        started_at: start time in seconds since 1970, as the operating system tells it.
    """

    process_id: int
    started_at: float

    @classmethod
    def of(cls, process_id: int) -> ProcessIdentity:
        """Identity of a process that is alive or at least not yet reaped.

        Raises:
            psutil.NoSuchProcess: there is none with this id.
        """
        return cls(process_id, psutil.Process(process_id).create_time())

    @classmethod
    def read(cls, path: Path) -> ProcessIdentity | None:
        """The identity that `write` left in a file; None without a readable one."""
        try:
            value = json.loads(path.read_text())
            return cls(int(value["process_id"]), float(value["started_at"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Leave the identity in a file."""
        write_private(path, json.dumps(asdict(self)))

    def is_same(self, process: psutil.Process) -> bool:
        """Whether the process is this one, and not a later one with its id."""
        started_at = process.create_time()
        return process.pid == self.process_id and abs(started_at - self.started_at) < START_TIME_TOLERANCE_SECONDS

    def is_alive(self) -> bool:
        """Whether this very process still runs; one that waits to be reaped does not."""
        try:
            process = psutil.Process(self.process_id)
            return self.is_same(process) and not _has_ended(process)
        except psutil.NoSuchProcess:
            return False

    def session_members(self) -> list[psutil.Process]:
        """Living processes of the session that this process leads or led, itself included."""
        try:
            if not self.is_same(psutil.Process(self.process_id)):
                return []  # an id is not given away while a session carries it: the session has ended
        except psutil.NoSuchProcess:
            pass  # the leader has ended; others of its session may live
        return [process for process in psutil.process_iter() if _belongs_to(process, self.process_id)]


def _has_ended(process: psutil.Process) -> bool:
    """Whether nothing of it runs, and it waits to be reaped: with its main thread alone the others have not ended."""
    return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() == 1


def _belongs_to(process: psutil.Process, session_id: int) -> bool:
    try:
        return os.getsid(process.pid) == session_id and not _has_ended(process)
    except (ProcessLookupError, PermissionError, psutil.NoSuchProcess):
        return False


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


def log_tail(log: Path) -> str:
    """The last lines of a log, for an error message."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return file.read().decode(errors="replace").strip()
    except OSError as error:
        return f"({error.strerror})"
