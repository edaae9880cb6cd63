"""Tells a process from a later one that was given the same id."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from spark_jobs.local.private_file import write_private

# The start time is computed from the boot time, which moves a little when the clock is set.
START_TIME_TOLERANCE_SECONDS = 2.0


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
            return self.is_same(process) and process.status() != psutil.STATUS_ZOMBIE
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


def _belongs_to(process: psutil.Process, session_id: int) -> bool:
    try:
        return os.getsid(process.pid) == session_id and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, PermissionError, psutil.NoSuchProcess):
        return False
