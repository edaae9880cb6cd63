"""The temporal join does what its cost model says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.base import Tuples
from spark_jobs.joins.stream_stream.emission import Emission, InputOrdered, OutputOrdered
from spark_jobs.joins.stream_stream.predicates import Equality
from spark_jobs.joins.stream_stream.temporal_join import TemporalJoin
from spark_jobs.joins.stream_stream.theory.temporal_join_model import (
    TimedStream,
    pages_read_per_tuple,
    probes_per_tuple,
    results_per_time,
    tuples_in_areas,
    waiting_tuples,
)
from spark_jobs.joins.stream_stream.windows import FixedWindow, SlidingWindow, Window

UNIT = 1000  # Ticks.
STEP = 100


def feed(
    join: TemporalJoin, streams: Sequence[TimedStream], windows: Sequence[Window], until: float, keys: int
) -> list[list[int]]:
    """Streams as the model has them, in steps of time; after each the tuples in memory, in the second half."""
    random = np.random.default_rng(4)
    made = []
    for stream, window in zip(streams, windows, strict=True):
        starts = (np.arange(int(until * stream.rate)) / stream.rate * UNIT).astype(np.int64)
        ids = np.arange(len(starts))
        made.append(Tuples(ids, random.integers(0, keys, len(ids)), None, starts, window.ends(starts)))
    observed = []
    taken = [0] * len(streams)
    for now in range(STEP, int(until * UNIT), STEP):
        for number, stream in enumerate(streams):
            begins = made[number].starts
            assert begins is not None
            arrived = int(np.searchsorted(begins, now - stream.lag * UNIT))
            join.arrive(number, made[number].part(slice(taken[number], arrived)))
            taken[number] = arrived
        if now > until * UNIT / 2:
            observed.append([join.tuples_in_memory(), join.tuples_on_disk()])
    return observed


@pytest.mark.parametrize("emission", [InputOrdered(), OutputOrdered()], ids=["input", "output"])
def test_the_state_follows_from_rates_windows_and_lags(emission: Emission) -> None:
    streams = [TimedStream(300, 2.0), TimedStream(100, 4.0, lag=1.5), TimedStream(200, 1.0, lag=0.5)]
    join = TemporalJoin(3, Equality(), 1 << 22, VirtualSpill(), emission=emission)
    windows = [SlidingWindow(int(stream.validity * UNIT)) for stream in streams]
    observed = np.mean(feed(join, streams, windows, 20, keys=1000), axis=0)[0]
    held = sum(tuples_in_areas(streams, output_ordered=not emission.buffers_inputs))
    if emission.buffers_inputs:
        held += sum(waiting_tuples(streams))
    assert observed == pytest.approx(held, rel=0.05)


def test_a_fixed_window_holds_half_of_what_a_sliding_one_of_its_length_does() -> None:
    streams = [TimedStream(200, 1.0), TimedStream(200, 1.0)]
    join = TemporalJoin(2, Equality(), 1 << 22, VirtualSpill())
    observed = np.mean(feed(join, streams, [FixedWindow(2 * UNIT)] * 2, 40, keys=1000), axis=0)[0]
    assert observed == pytest.approx(sum(tuples_in_areas(streams)), rel=0.08)


@pytest.mark.parametrize("partners", [0.5, 2.0])
def test_probes_and_results_follow_from_what_a_probe_finds(partners: float) -> None:
    streams = [TimedStream(200, 1.0), TimedStream(100, 1.0), TimedStream(50, 2.0)]
    keys = int(100 / partners)
    join = TemporalJoin(3, Equality(), 1 << 22, VirtualSpill(), emission=InputOrdered())
    windows = [SlidingWindow(int(stream.validity * UNIT)) for stream in streams]
    feed(join, streams, windows, 40, keys)
    counts = join.statistics
    orders = [[1, 2], [0, 2], [0, 1]]
    # Joined one by one in time: what a piece puts in its area before the next is taken is not asked by itself.
    assert counts.probes / counts.arrived == pytest.approx(probes_per_tuple(streams, orders, 1 / keys), rel=0.15)
    assert counts.early / 40 == pytest.approx(results_per_time(streams, 1 / keys), rel=0.1)


def test_pages_read_follow_from_what_lies_on_disk() -> None:
    spill = VirtualSpill(page_bytes=512)
    join = TemporalJoin(2, Equality(), 100_000, spill)
    streams = [TimedStream(300, 8.0)] * 2
    observed = feed(join, streams, [SlidingWindow(8 * UNIT)] * 2, 16, keys=1_000_000)
    before, arrived = spill.pages_read, join.statistics.arrived
    ids = np.arange(100_000, 100_030)
    starts = np.full(30, 15 * UNIT + 999)
    on_disk = join.tuples_on_disk()
    for stream in (0, 1):
        join.arrive(stream, Tuples(ids, ids, None, starts, starts + 8 * UNIT))
    read = (spill.pages_read - before) / (join.statistics.arrived - arrived)
    extent = join.extent
    assert observed[-1][1] > 1000
    assert read == pytest.approx(pages_read_per_tuple(on_disk / 2, extent, 30, 512), rel=0.25)
