"""Where a driver of one machine has Spark put what its tasks exchange and spill: whole events."""

from __future__ import annotations

import atexit
import shutil
import socket
import tempfile
from pathlib import Path

import psutil

from spark_jobs.settings import Home

_SOCKETS = "sockets"


def scratch_folder(home: Home) -> Path:
    """A folder for this process alone, below the home; what drivers of this host left that were killed is removed.

    Args:
        home: the installation, made private.
    """
    for left in home.spark.glob(f"{socket.gethostname()}-*-*"):
        if not _lives(left.name):
            shutil.rmtree((left / _SOCKETS).resolve(), ignore_errors=True)
            shutil.rmtree(left, ignore_errors=True)
    folder = home.spark / _name(psutil.Process())
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def sockets_folder(scratch: Path) -> Path:
    """A folder, for this user alone, whose path is short enough for Unix sockets.

    It goes when the process ends; that of a killed one goes with its scratch folder.

    Args:
        scratch: the folder of this process (`scratch_folder`). Below a long home its path is too long for a socket.
    """
    link = scratch / _SOCKETS
    if not link.is_symlink():
        folder = tempfile.mkdtemp(prefix="freshet-")
        link.symlink_to(folder)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return link.resolve()


def _name(process: psutil.Process) -> str:
    # A process id is given out again, but not with this time.
    return f"{socket.gethostname()}-{process.pid}-{process.create_time():.0f}"


def _lives(name: str) -> bool:
    process_id = name.split("-")[-2]
    try:
        return process_id.isdecimal() and _name(psutil.Process(int(process_id))) == name
    except psutil.NoSuchProcess:
        return False
