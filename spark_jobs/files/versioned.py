"""The newest of several versions on disk, while others write and remove them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from spark_jobs.errors import CacheDamagedError

Version = TypeVar("Version")


def newest_version(numbers: Callable[[], list[int]], read: Callable[[int], Version], after: int) -> Version | None:
    """The version with the highest number, if that is above `after`.

    Args:
        numbers: lists the versions there are, ascending.
        read: reads and verifies one of them.
        after: the highest number that is known already.

    Raises:
        CacheDamagedError: that version is refused; its number is the error's `version`.
    """
    while newer := [number for number in numbers() if number > after]:
        try:
            return read(newer[-1])
        except FileNotFoundError:
            pass  # newer ones came, and it went, since they were listed
    return None


def newest_sound_version(
    numbers: Callable[[], list[int]], read: Callable[[int], Version], after: int
) -> tuple[Version | None, list[CacheDamagedError]]:
    """The newest version above `after` that is not damaged, and why those above it are refused. Arguments as above."""
    refused: dict[int, CacheDamagedError] = {}
    while newer := [number for number in numbers() if number > after and number not in refused]:
        try:
            return read(newer[-1]), list(refused.values())
        except CacheDamagedError as error:
            refused[newer[-1]] = error
        except FileNotFoundError:
            pass
    return None, list(refused.values())
