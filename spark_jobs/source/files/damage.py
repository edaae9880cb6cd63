"""Damaged files: told from machines that can't read, and found before the first part is handed on."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pyarrow as pa

from spark_jobs.errors import SourceRangeGoneError, UnreadableFileError

Part = TypeVar("Part")
_KEPT_BYTES = 64 << 20


@contextmanager
def damage_told(file: str) -> Iterator[None]:
    """Tell errors of the file from those of the machine, which pass unchanged.

    Args:
        file: its name, for the message.

    Raises:
        UnreadableFileError: the file is damaged, or not of its format.
    """
    try:
        yield
    except (EOFError, zlib.error, pa.ArrowException, OSError, ValueError) as error:
        machine = isinstance(error, MemoryError | pa.ArrowCancelled) or getattr(error, "errno", None) is not None
        if machine:
            raise
        raise UnreadableFileError(f"{file} is damaged, or not what its name says: {error}") from error


def checked_whole(
    read: Callable[[Callable[[], bool] | None], Iterator[Part]], size_of: Callable[[Part], int], kept: int = _KEPT_BYTES
) -> Iterator[Part]:
    """The parts that `read` gives, once it has given all of them without an error.

    What takes more memory than `kept` is read twice.

    Args:
        read: reads from the beginning. What it is given the first time tells whether the next part will be read again,
            so that it is enough to glance at it; it is given None the second time.
        size_of: bytes of a part.
        kept: bytes that may be held in memory.

    Raises:
        UnreadableFileError: what `read` raises, before the first part.
        SourceRangeGoneError: `read` raises it the second time only.
    """
    parts: list[Part] = []
    size = 0

    def is_read_again() -> bool:
        return size > kept

    for part in read(is_read_again):
        size += size_of(part)
        if size <= kept:
            parts.append(part)
        else:
            parts.clear()
    if size <= kept:
        yield from parts
        return
    try:
        yield from read(None)
    except UnreadableFileError as error:
        raise SourceRangeGoneError(f"It was changed while it was read. {error}") from error
