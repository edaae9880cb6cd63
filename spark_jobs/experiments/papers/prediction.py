"""What the cost models say about a point of a figure: the best disk buffer, the service rate, the processing time."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.experiments.papers.contender import Contender
from spark_jobs.experiments.papers.disks import Disk
from spark_jobs.experiments.semi_stream.workloads import Workload
from spark_jobs.joins.semi_stream.theory import tuning
from spark_jobs.joins.semi_stream.theory.prediction import BACK_STAGES, Prediction, predict
from spark_jobs.joins.semi_stream.theory.setting import Setting

# Where lookups bring single tuples the disk buffer holds one of the disk's blocks.
_BLOCK_BYTES = 4096


def predicted(
    contender: Contender, workload: Workload, memory_bytes: int, page_rows: float, disk: Disk
) -> Prediction | None:
    """The cost model's prediction; None where there is no model, or no memory for pages of this size."""
    if contender.back_stage not in BACK_STAGES:
        return None
    setting, front_share = _setting(contender, workload, memory_bytes, page_rows, disk)
    try:
        return predict(contender.algorithm, setting, workload.popularity(), front_share)
    except MemoryBudgetError:
        return None


@lru_cache(maxsize=512)
def best_page_rows(contender: Contender, workload: Workload, memory_bytes: int, disk: Disk) -> int:
    """Tuples of the disk buffer at which the predicted service rate is highest (000 §4.5).

    An algorithm without a model is one of MESHJOIN's kin, and has MESHJOIN's best disk buffer.
    """
    if contender.reads_by_key:
        return max(1, _BLOCK_BYTES // workload.tuple_bytes)
    modelled = contender if contender.back_stage in BACK_STAGES else replace(contender, back_stage="mesh_join")
    setting, front_share = _setting(modelled, workload, memory_bytes, 1, disk)
    return tuning.best_page_rows(modelled.algorithm, setting, workload.popularity(), front_share)


def _setting(
    contender: Contender, workload: Workload, memory_bytes: int, page_rows: float, disk: Disk
) -> tuple[Setting, float]:
    """What the models are given, and the front stage's share of the memory that they are told of."""
    front = memory_bytes * contender.front_share
    whole = front + contender.back_stage_bytes(memory_bytes, page_rows * workload.tuple_bytes)
    costs, processor = disk.costs(workload)
    return Setting(workload.key_count, workload.tuple_bytes, page_rows, whole, costs, processor), front / whole
