"""Files that stand whole on the disk under their name, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

WRITING = ".writing"
"""End of the name of a file that is being written, or that a killed writer has left."""


def write_durably(path: Path, parts: Iterable[Any]) -> None:
    """Write a file with mode 0600: under a temporary name, brought to the disk, then renamed.

    A reader finds the former file or the whole new one, even after a loss of power. One writer per path at a time.

    Args:
        path: the file; one that is there is replaced.
        parts: what it holds, bytes-like objects, one after the other.

    Raises:
        OSError: the disk is full or fails; nothing is left then, and the former file is as it was.
    """
    written = path.with_name(path.name + WRITING)
    written.unlink(missing_ok=True)
    try:
        with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        written.rename(path)
    finally:
        written.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
