"""One point of a figure: an algorithm on a workload with a memory budget, tuned, warmed up, measured and predicted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.experiments.papers.contenders import Contender
from spark_jobs.experiments.papers.disks import Disk, OpenRelation
from spark_jobs.experiments.papers.figure_setting import FigureSetting
from spark_jobs.experiments.semi_stream.join_run import SaturatedRun, measure_with_arrivals
from spark_jobs.experiments.semi_stream.run_measurement import Measurement
from spark_jobs.experiments.semi_stream.workloads import Workload
from spark_jobs.joins.semi_stream.base import SemiStreamJoin
from spark_jobs.joins.semi_stream.cached_join import CachedJoin
from spark_jobs.joins.semi_stream.theory import tuning
from spark_jobs.joins.semi_stream.theory.prediction import BACK_STAGES, Prediction, predict
from spark_jobs.joins.semi_stream.theory.setting import Setting
from spark_jobs.workload.bursts import steady_arrivals

# Where lookups bring single tuples the disk buffer holds one of the disk's blocks.
_BLOCK_BYTES = 4096

# Turnovers of the queue. HYBRIDJOIN's begins full of recent tuples and must fill with costly ones first; where a page
# takes much of the stream, each of its loads is an event. MESHJOIN is steady as soon as its first cycle is over.
_HYBRID_WARM_UP, _HYBRID_MEASURED = 4, 6
# The partition-based join is not before the slots of rare pages have filled.
_PARTITION_WARM_UP = 20
_MESH_WARM_UP, _MESH_MEASURED = 1, 1
# A lookup costs the same whatever came before.
_LOOKUPS = 6_000
# Stream tuples for each tuple that the front stage holds, until it holds the frequent ones.
_FRONT_WARM_UP = 60
# Where a lookup offers one tuple at a time it learns slower.
_FRONT_WARM_UP_BY_LOOKUPS = 180


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


class RunLength(NamedTuple):
    """Stream tuples to settle before measuring, and while measuring."""

    warm_up: int
    measured: int


def run_length(join: SemiStreamJoin, contender: Contender, period: int = 1) -> RunLength:
    """Enough for a steady state.

    Behind a front stage the back stage sees the misses only: a turnover of its queue takes more of the stream.

    Args:
        join: new.
        contender: its algorithm.
        period: stream tuples after which the stream repeats itself: whole periods are measured.
    """
    cached = isinstance(join, CachedJoin)
    per_slot = _FRONT_WARM_UP_BY_LOOKUPS if contender.reads_by_key else _FRONT_WARM_UP
    front_warm_up = per_slot * join.front_stage.capacity if isinstance(join, CachedJoin) else 0
    if contender.reads_by_key:
        return RunLength(front_warm_up, _LOOKUPS)
    turnover = waiting_capacity(join) * (2 if cached else 1)
    chooses_pages = contender.back_stage in ("hybrid_join", "longest_wait_join", "semi_streamed_index_join")
    warm_up, measured = (_HYBRID_WARM_UP, _HYBRID_MEASURED) if chooses_pages else (_MESH_WARM_UP, _MESH_MEASURED)
    if contender.back_stage == "partition_wait_join":
        warm_up, measured = _PARTITION_WARM_UP, _HYBRID_MEASURED
    return RunLength(warm_up * turnover + front_warm_up, -(-measured * turnover // period) * period)


def waiting_capacity(join: SemiStreamJoin) -> int:
    """Stream tuples that a join has memory for, those of its front stage apart, h_S."""
    back_stage: Any = join.back_stage if isinstance(join, CachedJoin) else join
    return int(back_stage.capacity)


@dataclass(frozen=True)
class Measured:
    """A measured point.

    Attributes:
        measurement: what was counted and timed.
        page_rows: the disk buffer's size in tuples.
        predicted_rate: the cost model's service rate; None where there is no model.
        predicted_processing: its processing time.
    """

    measurement: Measurement
    page_rows: int
    predicted_rate: float | None
    predicted_processing: float | None


def measure_point(
    setting: FigureSetting,
    contender: Contender,
    workload: Workload,
    memory_bytes: int,
    *,
    page_rows: int | None = None,
    seed: int = 1,
) -> Measured:
    """Measure a saturated stream.

    Args:
        setting: scale and disk.
        contender: the algorithm.
        workload: R and the stream.
        memory_bytes: its budget, all of it.
        page_rows: the disk buffer in tuples; None for the size that the cost model finds best.
        seed: of the stream.
    """
    if page_rows is None:
        page_rows = best_page_rows(contender, workload, memory_bytes, setting.disk)
    with setting.disk.open(workload, page_rows) as opened:
        join = contender.join(opened.relation, memory_bytes)
        run = saturated_run(join, opened, workload, seed)
        length = run_length(join, contender, workload.period)
        if length.warm_up:
            run.measure(length.warm_up)
        measurement = run.measure(length.measured)
    prediction = predicted(contender, workload, memory_bytes, page_rows, setting.disk)
    return Measured(
        measurement,
        page_rows,
        None if prediction is None else prediction.service_rate,
        None if prediction is None else prediction.processing_seconds,
    )


def measure_arriving(
    setting: FigureSetting, contender: Contender, workload: Workload, memory_bytes: int, rate: float
) -> Measurement:
    """Measure a stream that comes steadily at a rate, with each algorithm's best disk buffer.

    MESHJOIN is measured over a cycle after a cycle, however long they take; the others over the scale's minutes.
    INLJ takes tuple by tuple, so that its backlog waits outside.
    """
    page_rows = best_page_rows(contender, workload, memory_bytes, setting.disk)
    prediction = predicted(contender, workload, memory_bytes, page_rows, setting.disk)
    settled_a_second = rate if prediction is None else min(rate, prediction.service_rate)
    tuples = int(60 * setting.scale.minutes * settled_a_second)
    with setting.disk.open(workload, page_rows) as opened:
        join = contender.join(opened.relation, memory_bytes)
        is_mesh = contender.back_stage == "mesh_join"
        length = waiting_capacity(join) if is_mesh else tuples
        return measure_with_arrivals(
            join,
            opened.relation,
            workload.stream(seed=1),
            steady_arrivals(rate),
            opened.clock,
            opened.processor,
            warm_up=length,
            measured=length,
            most_pending=1 if contender.back_stage == "index_nested_loop" else None,
            chunk=waiting_capacity(join) // opened.relation.page_count if is_mesh else 1,
        )


def saturated_run(join: SemiStreamJoin, opened: OpenRelation, workload: Workload, seed: int) -> SaturatedRun:
    """A run of the join on the workload's stream from its beginning."""
    return SaturatedRun(join, opened.relation, workload.stream(seed=seed), opened.clock, opened.processor)
