"""Runs a join on a stream and measures it: on a virtual clock that R and the processor charge, or on the real one."""

from __future__ import annotations

from spark_jobs.experiments.numbered_relation import NumberedRelation
from spark_jobs.experiments.semi_stream.arrivals_run import ArrivalsRun
from spark_jobs.experiments.semi_stream.join_run import Clock
from spark_jobs.experiments.semi_stream.measurement import Measurement
from spark_jobs.experiments.semi_stream.saturated_run import SaturatedRun
from spark_jobs.experiments.semi_stream.stream_blocks import Stream
from spark_jobs.joins.semi_stream.base import SemiStreamJoin
from spark_jobs.joins.semi_stream.theory.processor_costs import ProcessorCosts
from spark_jobs.workload.bursts import Arrivals

__all__ = ["ArrivalsRun", "Measurement", "SaturatedRun", "measure_saturated", "measure_with_arrivals"]


def measure_saturated(
    join: SemiStreamJoin,
    relation: NumberedRelation,
    stream: Stream,
    clock: Clock,
    processor: ProcessorCosts | None,
    *,
    warm_up: int,
    measured: int,
) -> Measurement:
    """Measure a join whose stream is faster than it: memory is full again before every step.

    Args:
        join: the operator, new.
        relation: its R, which charges `clock` if that is virtual.
        stream: draws n keys.
        clock: a VirtualClock, or `time.perf_counter`.
        processor: charged on a virtual clock; None where time passes by itself, or where it shall cost nothing.
        warm_up: stream tuples settled before measuring begins.
        measured: stream tuples to be settled after that, at least.
    """
    run = SaturatedRun(join, relation, stream, clock, processor)
    if warm_up:
        run.measure(warm_up)
    return run.measure(measured)


def measure_with_arrivals(
    join: SemiStreamJoin,
    relation: NumberedRelation,
    stream: Stream,
    arrivals: Arrivals,
    clock: Clock,
    processor: ProcessorCosts | None,
    *,
    warm_up: int,
    measured: int,
    most_pending: int | None = None,
    chunk: int = 1,
) -> Measurement:
    """Measure a join whose stream tuples come when `arrivals` says; those that find no room wait outside.

    Args:
        join: the operator, new.
        relation: its R.
        stream: draws n keys.
        arrivals: steady or bursty, see workload.bursts.
        clock: a VirtualClock, or `time.perf_counter`.
        processor: as for `measure_saturated`.
        warm_up: stream tuples settled before measuring begins.
        measured: stream tuples to be settled after that, at least.
        most_pending: stream tuples that the join takes at once, if fewer than it has room for; 1 makes INLJ work
            tuple by tuple, so that its backlog waits outside (000 §6.2.1).
        chunk: stream tuples for which a blocking MESHJOIN stands still, so that it is not asked at each of them.
    """
    run = ArrivalsRun(join, relation, stream, arrivals, clock, processor, most_pending, chunk)
    if warm_up:
        run.measure(warm_up)
    return run.measure(measured)
