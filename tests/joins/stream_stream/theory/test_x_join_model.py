"""What the models of XJoin and its relatives predict is what is counted."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.base import Tuples
from spark_jobs.joins.stream_stream.double_pipelined_hash_join import DoublePipelinedHashJoin
from spark_jobs.joins.stream_stream.predicates import Equality
from spark_jobs.joins.stream_stream.theory.x_join_model import (
    SpilledRun,
    double_pipelined_early,
    x_join_early,
    x_join_pages,
    x_join_wait,
)
from spark_jobs.joins.stream_stream.x_join import XJoin

COUNT = 40_000
BATCH = 500


def counted(join: XJoin, spill: VirtualSpill) -> tuple[SpilledRun, float, float]:
    """Two streams with one match for each tuple: the run, the share of early results, the mean wait."""
    randomness = np.random.default_rng(1)
    keys = [randomness.permutation(COUNT) for _ in range(2)]
    for first in range(0, COUNT, BATCH):
        for stream in range(2):
            ids = np.arange(first, first + BATCH)
            join.arrive(stream, Tuples(ids, keys[stream][first : first + BATCH]))
    parts = join.parts
    run = SpilledRun(2 * COUNT, parts.memory.capacity, 2 * parts.partitions, parts.buffered, 32, spill.page_bytes)
    waited = sum(float((2 * COUNT - 2 * results.ids.max(axis=0)).sum()) for results in join.finish())
    return run, join.statistics.early / COUNT, waited / COUNT


@pytest.mark.parametrize("share", [0.05, 0.1, 0.15])
def test_x_join_tells_as_many_results_early_as_predicted(share: float) -> None:
    spill = VirtualSpill(page_bytes=512)
    join = XJoin(2, Equality(), int(2 * COUNT * 42 * share), spill)
    run, early, waited = counted(join, spill)
    assert early == pytest.approx(x_join_early(run), rel=0.1)
    assert waited == pytest.approx(x_join_wait(run), rel=0.1)
    assert spill.pages_written == pytest.approx(x_join_pages(run), rel=0.15)
    assert spill.pages_read == spill.pages_written


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_double_pipelined_hash_join_tells_as_many_results_early_as_predicted(share: float) -> None:
    """A little fewer, as marked tuples take memory until they fill a page."""
    spill = VirtualSpill(page_bytes=512)
    join = DoublePipelinedHashJoin(2, Equality(), int(2 * COUNT * 42 * share), spill)
    run, early, _ = counted(join, spill)
    assert early == pytest.approx(double_pipelined_early(run), rel=0.25)
    assert early < double_pipelined_early(run)


def test_where_memory_holds_all_nothing_waits() -> None:
    ample = SpilledRun(1_000, 2_000, 8, 100)
    assert (x_join_early(ample), x_join_wait(ample), x_join_pages(ample)) == (1.0, 0.0, 0.0)
    assert double_pipelined_early(ample) == 1.0
