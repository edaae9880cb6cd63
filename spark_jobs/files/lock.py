"""A lock between processes, held on a file. The kernel releases it when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def exclusive_lock(file: Path, *, wait: bool) -> Iterator[None]:
    """Hold the lock for the time of the block; the file is made where it does not exist.

    Raises:
        BlockingIOError: somebody else holds the lock, and `wait` is false.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
