"""The temporal join in memory: what a tuple costs, by what is held, by predicate, and by what waits."""

from __future__ import annotations

import numpy as np

from spark_jobs.experiments.kernels.measured_figure import MeasuredFigure, interleaved, seconds
from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.base import Tuples
from spark_jobs.joins.stream_stream.emission import Emission, InputOrdered, OutputOrdered
from spark_jobs.joins.stream_stream.predicates import Band, Equality, Overlap, Predicate
from spark_jobs.joins.stream_stream.temporal_join import TemporalJoin
from spark_jobs.joins.stream_stream.windows import SlidingWindow

TARGET = 200.0
FLAT = 1.3
HELD = (10_000, 1_000_000, 10_000_000)
_BATCH = 4096
_STRETCH = 50 * _BATCH
_TUPLE_BYTES = 2 * 56
_BESIDES = 32 << 20
# Values that may be asked for lie so far apart that intervals and bands of this width match one of them on average.
_WIDTH = 50


class WindowedRun:
    """Two streams in step, windows full: each tuple that comes finds one partner on average, and one leaves.

    Args:
        held: tuples of both windows.
        predicate: when tuples match.
        emission: what waits.
    """

    def __init__(self, held: int, predicate: Predicate, emission: Emission) -> None:
        self._predicate = predicate
        self._window = held // 2
        self.join = TemporalJoin(2, predicate, held * _TUPLE_BYTES + _BESIDES, VirtualSpill(), emission=emission)
        # As after memory has been full once: what the system does for a page's first use is not the join's work.
        self.join._area.tuples.view(np.uint8).fill(0)
        self._random = np.random.default_rng(held)
        self._came = 0
        while self._came < self._window:
            self._take([self._batch()])
        self.stretch()

    def stretch(self) -> float:
        """Nanoseconds for each of about 200,000 tuples."""
        coming = [self._batch() for _ in range(_STRETCH // (2 * _BATCH))]
        return seconds(lambda: self._take(coming)) * 1e9 / _STRETCH

    def _take(self, batches: list[list[Tuples]]) -> None:
        for batch in batches:
            for stream, tuples in enumerate(batch):
                self.join.arrive(stream, tuples)

    def _batch(self) -> list[Tuples]:
        """What both streams bring next."""
        starts = np.arange(self._came, self._came + _BATCH)
        ends = SlidingWindow(self._window).ends(starts)
        self._came += _BATCH
        batch = []
        for _ in range(2):
            keys = self._random.integers(0, self._window, _BATCH)
            highs = None
            if not isinstance(self._predicate, Equality):
                keys *= 2 * _WIDTH
            if self._predicate.interval:
                highs = keys + _WIDTH
            batch.append(Tuples(starts, keys, highs, starts, ends))
        return batch


def measure(repeats: int) -> list[MeasuredFigure]:
    """By tuples held; then, for the middle of them, by predicate and by what waits."""
    runs = {f"{held:,} tuples held": WindowedRun(held, Equality(), OutputOrdered()) for held in HELD}
    least, _, most = runs
    others = {
        f"{HELD[1]:,} tuples held, overlap": WindowedRun(HELD[1], Overlap(), OutputOrdered()),
        f"{HELD[1]:,} tuples held, band": WindowedRun(HELD[1], Band(_WIDTH), OutputOrdered()),
        f"{HELD[1]:,} tuples held, inputs wait": WindowedRun(HELD[1], Equality(), InputOrdered()),
    }
    observed = interleaved({name: run.stretch for name, run in (runs | others).items()}, repeats)
    for run in (runs | others).values():
        if run.join.statistics.flushed:
            raise AssertionError("a temporal join that was to be in memory has written to disk")
    figures = [
        MeasuredFigure.of(f"temporal join, {name}: per tuple", values, "ns", TARGET if name in runs else None)
        for name, values in observed.items()
    ]
    growth = [large / small for large, small in zip(observed[most], observed[least], strict=True)]
    return [*figures, MeasuredFigure.of(f"temporal join: {most} against {least}", growth, "times", FLAT)]
