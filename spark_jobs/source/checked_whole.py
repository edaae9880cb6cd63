"""Reads something whole before its first part is handed on, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from spark_jobs.errors import SourceRangeGoneError, UnreadableFileError

Part = TypeVar("Part")

KEPT_BYTES = 64 << 20


def checked_whole(
    read: Callable[[], Iterator[Part]], size_of: Callable[[Part], int], kept: int = KEPT_BYTES
) -> Iterator[Part]:
    """The parts that `read` gives, once it has given all of them without an error.

    What takes more memory than `kept` is read twice.

    Args:
        read: reads from the beginning.
        size_of: bytes of a part.
        kept: bytes that may be held in memory.

    Raises:
        UnreadableFileError: what `read` raises, before the first part.
        SourceRangeGoneError: `read` raises it the second time only.
    """
    parts: list[Part] = []
    size = 0
    for part in read():
        size += size_of(part)
        if size <= kept:
            parts.append(part)
        else:
            parts.clear()
    if size <= kept:
        yield from parts
        return
    try:
        yield from read()
    except UnreadableFileError as error:
        raise SourceRangeGoneError(f"It was changed while it was read. {error}") from error
