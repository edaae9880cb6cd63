"""Runs cases in turn, so that whatever else the machine does meanwhile falls on all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

Name = TypeVar("Name")
Observed = TypeVar("Observed")


def interleaved(cases: Mapping[Name, Callable[[], Observed]], repeats: int) -> dict[Name, list[Observed]]:
    """What each case gave in each of `repeats` rounds; a first round, which warms caches up, is thrown away."""
    for case in cases.values():
        case()
    observed: dict[Name, list[Observed]] = {name: [] for name in cases}
    for _ in range(repeats):
        for name, case in cases.items():
            observed[name].append(case())
    return observed


def timed(work: Callable[[], Observed]) -> tuple[float, Observed]:
    """How many seconds of processor time a piece of work takes, and what comes of it.

    The turns of other processes don't count; what they do to the processor's caches still does.
    """
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def seconds(work: Callable[[], object]) -> float:
    """How many seconds of processor time a piece of work takes."""
    return timed(work)[0]
