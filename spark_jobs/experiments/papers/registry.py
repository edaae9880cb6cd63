"""All figures, in the papers' order, and one of our own."""

from __future__ import annotations

from collections.abc import Sequence

from spark_jobs.errors import WorkloadError
from spark_jobs.experiments.papers import auto_choice
from spark_jobs.experiments.papers.caching import (
    cost_validation as caching_costs,
)
from spark_jobs.experiments.papers.caching import (
    data_sets,
    front_stage_at_work,
    growing_relation,
    index_nested_loop,
    load_shedding,
    processing_time,
    sensitivity,
    service_rate,
    temporal_locality,
)
from spark_jobs.experiments.papers.figure import Figure
from spark_jobs.experiments.papers.hybrid_join import (
    benchmark_stream,
    cost_validation,
    disk_buffer,
    times,
)
from spark_jobs.experiments.papers.hybrid_join import (
    service_rate as hybrid_service_rate,
)
from spark_jobs.experiments.papers.sketches import join_size_error

FIGURES = (
    benchmark_stream.PAGE_USE,
    disk_buffer.FIGURE,
    benchmark_stream.LONG_TAIL,
    benchmark_stream.BURSTS,
    times.PROCESSING,
    times.WAITING,
    hybrid_service_rate.BY_SIZE,
    hybrid_service_rate.BY_MEMORY,
    cost_validation.FIGURE,
    join_size_error.SKEWED,
    join_size_error.VERY_SKEWED,
    service_rate.BY_MEMORY,
    service_rate.BY_SIZE,
    index_nested_loop.FIGURE,
    service_rate.BY_SKEW,
    data_sets.TPCH,
    data_sets.WEATHER,
    temporal_locality.FIGURE,
    processing_time.FIGURE,
    load_shedding.POSITION,
    load_shedding.SERVICE_RATE,
    sensitivity.FRONT_SHARE,
    front_stage_at_work.THRESHOLD,
    sensitivity.DISK_BUFFER,
    front_stage_at_work.ROLE,
    growing_relation.FIGURE,
    caching_costs.FIGURE,
    auto_choice.FIGURE,
)


def figures_named(ids: Sequence[str]) -> tuple[Figure, ...]:
    """The figures with these ids, all of them if none is given.

    Raises:
        WorkloadError: there is no figure of such an id.
    """
    by_id = {figure.id: figure for figure in FIGURES}
    for unknown in set(ids) - set(by_id):
        raise WorkloadError(f"There is no figure {unknown!r}: give one of {', '.join(by_id)}.")
    return tuple(by_id[id_] for id_ in ids) if ids else FIGURES
