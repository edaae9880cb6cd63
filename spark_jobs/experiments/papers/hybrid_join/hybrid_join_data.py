"""The data of 000 §6.1 (Table 2): R sorted by popularity, Zipf exponent 1, tuples of 120 bytes, memory 50 MB."""

from __future__ import annotations

from spark_jobs.experiments.papers.figure_setting import FigureSetting
from spark_jobs.experiments.semi_stream.workloads import Workload, zipf

RELATION_TUPLES = (500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)
TUNED_RELATION = 2_000_000
MEMORY_BYTES = 50_000_000
MEMORIES = (10_000_000, 25_000_000, 50_000_000, 75_000_000, 100_000_000)


def workload(setting: FigureSetting, tuples: float) -> Workload:
    """The stream, with R of this many tuples at paper scale."""
    return zipf(int(tuples * setting.scale.hybrid_join_part), sorted_by_rank=True)


def memory(setting: FigureSetting, size: float = MEMORY_BYTES) -> int:
    """A budget of this size at paper scale."""
    return int(size * setting.scale.hybrid_join_part)
