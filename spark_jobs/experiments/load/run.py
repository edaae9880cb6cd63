"""The result of one run, and how it is told from its batches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """One contender's run over all events of a case.

    Attributes:
        facts_per_second: measured facts by the seconds from the end of the warm-up to the last commit.
        facts: measured facts.
        cpu_seconds_per_million: processor seconds of the whole machine per million facts, warm-up included.
        peak_worker_bytes: most memory of the Python workers; 0 where there are none.
        peak_java_bytes: most memory of the Java machine; 0 where there is none.
        detail: the contender's own figures.
    """

    facts_per_second: float
    facts: int
    cpu_seconds_per_million: float
    peak_worker_bytes: int
    peak_java_bytes: int
    detail: dict[str, object]


def measured(ends: list[tuple[float, int]], warm_up: int) -> tuple[float, int]:
    """Facts per second and facts, after the batches that hold the warm-up.

    Args:
        ends: for each batch the moment of its commit in seconds, and its facts.
        warm_up: facts that are not measured.
    """
    loaded, started = 0, None
    for end, facts in ends:
        loaded += facts
        if loaded >= warm_up:
            started = end
            break
    if started is None or started == ends[-1][0]:
        raise ValueError("the warm-up took all batches: measure more events")
    rest = sum(facts for _, facts in ends) - loaded
    return rest / (ends[-1][0] - started), rest
