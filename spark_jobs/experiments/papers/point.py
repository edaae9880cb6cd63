"""One point of a figure: an algorithm on a workload with a memory budget, tuned, warmed up and measured."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.experiments.papers.contender import Contender
from spark_jobs.experiments.papers.disks import OpenRelation
from spark_jobs.experiments.papers.prediction import best_page_rows, predicted
from spark_jobs.experiments.papers.run_length import run_length, waiting_capacity
from spark_jobs.experiments.papers.setting import Setting
from spark_jobs.experiments.semi_stream.measured_run import SaturatedRun, measure_with_arrivals
from spark_jobs.experiments.semi_stream.measurement import Measurement
from spark_jobs.experiments.semi_stream.workloads import Workload
from spark_jobs.joins.semi_stream.base import SemiStreamJoin
from spark_jobs.workload.bursts import steady_arrivals


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
    setting: Setting,
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
    setting: Setting, contender: Contender, workload: Workload, memory_bytes: int, rate: float
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
