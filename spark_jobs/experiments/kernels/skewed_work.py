"""What a front stage costs and saves: the joins' own work per stream tuple, all in all, on a skewed stream."""

from __future__ import annotations

from spark_jobs.experiments.kernels.figure import Figure
from spark_jobs.experiments.kernels.interleaved import interleaved
from spark_jobs.experiments.kernels.own_work import SaturatedRun

ALGORITHMS = ("hybrid_join", "cached_hybrid_join")
_WAITING = 500_000
_ROW_COUNT = 2_000_000
_PAGE_ROWS = 500
_EXPONENT = 1.0
# Stretches until the front stage knows the stream.
_LEARNING = 15


def measure(repeats: int) -> list[Figure]:
    """Nanoseconds and page loads per stream tuple at exponent 1, memory about 10 % of R."""
    runs = {name: SaturatedRun(name, _WAITING, _ROW_COUNT, _PAGE_ROWS, _EXPONENT) for name in ALGORITHMS}
    for run in runs.values():
        for _ in range(_LEARNING):
            run.stretch()
    figures = []
    for name, works in interleaved({name: run.stretch for name, run in runs.items()}, repeats).items():
        spent = [work.seconds * 1e9 / work.stream_tuples for work in works]
        loads = [1000 * work.steps / work.stream_tuples for work in works]
        figures += [
            Figure.of(f"{name}, exponent 1: per stream tuple, all in all", spent, "ns"),
            Figure.of(f"{name}, exponent 1: page loads", loads, "per 1,000 tuples"),
        ]
    return figures
