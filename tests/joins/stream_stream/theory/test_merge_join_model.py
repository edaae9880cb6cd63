"""The models of the progressive merge joins against counts, and against trying all combinations."""

from __future__ import annotations

from itertools import product
from math import inf

import numpy as np
import pytest

from spark_jobs.experiments.stream_stream.interval_streams import IntervalStreams
from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.base import Tuples
from spark_jobs.joins.stream_stream.merge_strategies import Greedy, MaxFanIn, MergeStrategy
from spark_jobs.joins.stream_stream.predicates import Equality, Overlap
from spark_jobs.joins.stream_stream.progressive_merge_join import ProgressiveMergeJoin
from spark_jobs.joins.stream_stream.temporal_progressive_merge_join import TemporalProgressiveMergeJoin
from spark_jobs.joins.stream_stream.theory.interval_results import expected_results, near_together
from spark_jobs.joins.stream_stream.theory.merge_join_model import (
    MergeSetting,
    merge_join_pages,
    pages_a_tuple,
    progressive_is_better,
)

PAGE_BYTES = 400


@pytest.mark.parametrize("window", [500, 4000])
@pytest.mark.parametrize("strategy", [MaxFanIn(), Greedy()])
def test_tpmj_takes_the_pages_that_the_model_says(strategy: MergeStrategy, window: int) -> None:
    count, spill = 10_000, VirtualSpill(page_bytes=PAGE_BYTES)
    join = TemporalProgressiveMergeJoin(2, Overlap(), 100_000, spill, strategy=strategy, fan_in=8)
    streams = IntervalStreams(2, count, 3, window, seed=1)
    for first in range(0, count, 20):
        for stream in range(2):
            join.arrive(stream, streams.part(stream, first, first + 20))
        while join.is_work:
            join.advance()
    for _ in join.finish():
        pass
    setting = MergeSetting(2, join.memory_tuples, window, PAGE_BYTES // 40, 8)
    predicted = merge_join_pages(setting, strategy, 2 * count)
    assert spill.pages_written == pytest.approx(predicted.written, rel=0.1)
    assert spill.pages_read == pytest.approx(predicted.read, rel=0.1)


@pytest.mark.parametrize("strategy", [MaxFanIn(), Greedy()])
def test_pmj_takes_the_pages_that_the_model_says(strategy: MergeStrategy) -> None:
    count, spill = 6000, VirtualSpill(page_bytes=PAGE_BYTES)
    join = ProgressiveMergeJoin(2, Equality(), 60_000, spill, strategy=strategy, fan_in=8)
    keys = np.random.default_rng(1).permutation(count)
    for first in range(0, count, 20):
        for stream in range(2):
            join.arrive(stream, Tuples(np.arange(first, first + 20), keys[first : first + 20]))
        while join.is_work:
            join.advance()
    for _ in join.finish():
        pass
    setting = MergeSetting(2, join.memory_tuples, inf, PAGE_BYTES // 16, 8)
    predicted = merge_join_pages(setting, strategy, 2 * count)
    assert spill.pages_written == pytest.approx(predicted.written, rel=0.1)
    # Beside the tuples the directories' pages are read, here one for every 12 extents.
    assert predicted.read <= spill.pages_read <= 1.2 * predicted.read


def test_in_the_long_run_the_pages_of_a_tuple_are_those_of_the_formula() -> None:
    setting = MergeSetting(4, 1200, 1000, 10, 28)
    tuples = 4_000_000
    played = merge_join_pages(setting, Greedy(), tuples).accesses / tuples
    assert pages_a_tuple(setting, 2) == pytest.approx(played, rel=0.03)


def test_tpmj_is_better_than_the_temporal_join_only_where_its_areas_outgrow_memory() -> None:
    def setting(window: float) -> MergeSetting:
        return MergeSetting(2, 10_000, window, 100, 16)

    assert not progressive_is_better(setting(5000))
    assert progressive_is_better(setting(6000))
    assert progressive_is_better(setting(100_000))


def test_positions_near_together_are_as_many_as_trying_all_of_them_finds() -> None:
    for streams, positions, length in product((2, 3), (1, 4, 6), (1, 2, 5, 9)):
        tried = sum(max(chosen) - min(chosen) < length for chosen in product(range(positions), repeat=streams))
        assert near_together(streams, positions, length) == tried


def test_joins_have_as_many_results_as_expected() -> None:
    counts = []
    for seed in range(30):
        streams = IntervalStreams(3, 400, 6, 60, seed)
        join = TemporalProgressiveMergeJoin(3, Overlap(), 1 << 20, VirtualSpill())
        for stream in range(3):
            join.arrive(stream, streams.part(stream, 0, 400))
        counts.append(sum(results.count for results in join.finish()))
    deviation = np.std(counts) / len(counts) ** 0.5
    assert abs(np.mean(counts) - expected_results(3, 400, 6, 60)) < 3 * deviation
