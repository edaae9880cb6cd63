"""Tells a damaged file from a machine that can't read."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from spark_jobs.errors import UnreadableFileError


@contextmanager
def damage_told(file: str) -> Iterator[None]:
    """Tell errors that are the file's from those that are the machine's, which pass.

    Args:
        file: its name, for the message.

    Raises:
        UnreadableFileError: the file is damaged, or no such file.
    """
    try:
        yield
    except (EOFError, zlib.error, pa.ArrowException, OSError, ValueError) as error:
        machine = isinstance(error, MemoryError | pa.ArrowCancelled) or getattr(error, "errno", None) is not None
        if machine:
            raise
        raise UnreadableFileError(f"{file} is damaged, or not what its name says: {error}") from error
