"""Splits a join's memory budget: what it needs whatever comes, and as many waiting stream tuples as the rest holds."""

from __future__ import annotations

from collections.abc import Callable

from spark_jobs.errors import MemoryBudgetError

MOST_TUPLES = 2**31 - 2
# The index of a page's keys may take this part of the page's size: enough for tuples of 32 bytes on.
PAGE_INDEX_SHARE = 4


def most_within(memory_bytes: int, bytes_for: Callable[[int], int], most: int) -> int:
    """The largest number up to `most` whose memory fits, 0 if that of 1 does not. O(log most).

    Args:
        memory_bytes: what it is to fit into.
        bytes_for: memory of a number, in bytes; never falls with the number.
        most: the largest number allowed.
    """
    fits, too_many = 0, most + 1
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if bytes_for(middle) <= memory_bytes:
            fits = middle
        else:
            too_many = middle
    return fits


def tuples_within(
    memory_bytes: int, fixed_bytes: int, bytes_for: Callable[[int], int], *, algorithm: str, fixed: str
) -> int:
    """The most stream tuples that a budget holds. O(log of the budget).

    Args:
        memory_bytes: the budget.
        fixed_bytes: what is needed besides the tuples.
        bytes_for: memory of a number of tuples, in bytes; never falls with the number.
        algorithm: whose budget it is, for the error.
        fixed: what `fixed_bytes` are for, for the error: "a page of R".

    Raises:
        MemoryBudgetError: the budget does not hold a single tuple.
    """
    fits = most_within(memory_bytes - fixed_bytes, bytes_for, MOST_TUPLES)
    if fits < 1:
        raise MemoryBudgetError(
            f"{algorithm} was given {memory_bytes:,} bytes, but {fixed} and one stream tuple need "
            f"{fixed_bytes + bytes_for(1):,}: give it more memory, or make the pages smaller"
        )
    return fits
