"""Cost models of XJoin and its relatives: which results come early, how late the others are, and what the disk does.

Two streams of equal rate bring T tuples in all, of which memory holds M; keys match at random positions. A part that is
flushed as the largest grows until then from nothing, and all parts do so in turn: so a tuple stays for a time that is
uniform from 0 to 2 M arrivals.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class SpilledRun(NamedTuple):
    """Two whole streams through a memory that is several times smaller.

    Attributes:
        tuples: of both streams, T.
        memory_tuples: what memory holds, M.
        parts: in memory: partitions times streams.
        extent_tuples: most that one write takes.
        tuple_bytes: on disk.
        page_bytes: of the disk.
    """

    tuples: int
    memory_tuples: int
    parts: int
    extent_tuples: int
    tuple_bytes: int = 32
    page_bytes: int = 4096


def x_join_early(run: SpilledRun) -> float:
    """The part of the results that XJoin tells when the later tuple arrives; the others need a pause, or the end.

    The time between two tuples has the density 2 (T - t) / T^2; the earlier is still there with 1 - t / 2M. With
    a = 2M / T that makes a - a^2 / 3. The same for hash-merge join, whose partitions leave on both sides at once.
    """
    if run.memory_tuples >= run.tuples:
        return 1.0
    stay = 2 * run.memory_tuples / run.tuples
    return stay - stay**2 / 3 if stay <= 1 else 1 - 1 / (3 * stay)


def x_join_wait(run: SpilledRun) -> float:
    """For how many arrivals a result waits on average, from the later tuple's on, if the inputs never pause.

    One that is missed in memory waits for the end: (T - t) / 2 on average over all positions.
    """
    if run.memory_tuples >= run.tuples:
        return 0.0
    stay = 2 * run.memory_tuples / run.tuples
    early = stay / 2 - stay**2 / 3 + stay**3 / 12 if stay <= 1 else 1 / 3 - 1 / (12 * stay)
    return run.tuples * (1 / 3 - early)


def double_pipelined_early(run: SpilledRun) -> float:
    """The part of the results that the double pipelined hash join tells before the end.

    When v tuples have come, a part of M / v of the partitions is still open: on average over the later tuple's
    position 2m - m^2, with m = M / T. It is about as much as XJoin tells, but of the first tuples, not of all.
    """
    open_ = min(1.0, run.memory_tuples / run.tuples)
    return 2 * open_ - open_**2


def x_join_pages(run: SpilledRun) -> float:
    """Pages that XJoin writes, and reads at the end if the inputs never pause.

    A part is flushed with 2 M / parts tuples, in as many extents as that takes, each with a header of one tuple.
    """
    if run.memory_tuples >= run.tuples:
        return 0.0
    flushed = 2 * run.memory_tuples / run.parts
    full, rest = divmod(flushed, run.extent_tuples)
    pages = full * _pages(run, run.extent_tuples) + (_pages(run, rest) if rest >= 1 else 0)
    return run.tuples / flushed * pages


def _pages(run: SpilledRun, tuples: float) -> int:
    return math.ceil((tuples + 1) * run.tuple_bytes / run.page_bytes)
