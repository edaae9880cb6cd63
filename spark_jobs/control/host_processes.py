"""Processes by their ids: whether one that was noted still lives, as far as this host can tell."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime, timedelta

import psutil

GONE = "its process is gone: it was killed (kill -9, or no memory was left), or its machine was restarted"
_START_TIME_TOLERANCE = timedelta(seconds=2)  # the kernel's boot time, which start times count from, is rounded
_FIRST_PROCESS_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of Linux: not in a container


def this_host() -> str:
    """The host's name; in a container also its namespace of process ids, since those mean nothing outside."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = _FIRST_PROCESS_NAMESPACE
    name = socket.gethostname()
    return name if namespace == _FIRST_PROCESS_NAMESPACE else f"{name}/{namespace}"


def process_started_at(process_id: int) -> datetime | None:
    """When the process with this id started; None if there is none, or only its unreaped remains."""
    try:
        process = psutil.Process(process_id)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return datetime.fromtimestamp(process.create_time(), UTC)
    except psutil.NoSuchProcess:
        return None


def is_gone(host: str, process_id: int, started_at: datetime) -> bool:
    """Whether a process on this host has ended; of one on another host nothing is known, and it counts as living.

    Another process may have got its id since, and is told from it by the start time.
    """
    if host != this_host():
        return False
    found = process_started_at(process_id)
    return found is None or abs(found - started_at) > _START_TIME_TOLERANCE
