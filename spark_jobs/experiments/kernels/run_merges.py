"""Merging sorted runs, and the sweep that joins them on the way: tuples a second of one core."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from spark_jobs.experiments.kernels.measured_figure import MeasuredFigure, interleaved, seconds
from spark_jobs.experiments.virtual_spill import VirtualSpill
from spark_jobs.joins.stream_stream.predicates import Equality
from spark_jobs.joins.stream_stream.sweeps import sweep_for
from spark_jobs.joins.structures.sorted_runs import KEY, Layout, Run, RunMerge, Source
from spark_jobs.joins.structures.sweep import ALWAYS, Columns

TARGET = 10_000_000
RUNS = (2, 8, 16)
_TUPLES = 2_000_000
_SWEPT = 200_000
_COLUMNS = 1 << 16
_PAGE_MEMORY = 4_000_000
_PLAIN, _WHOLE = Layout(interval=False, validity=False), Layout(interval=True, validity=True)


def measure(repeats: int) -> list[MeasuredFigure]:
    """Tuples merged a second, with 2 and 5 columns; and joined a second, where each has one partner."""
    merges = {(layout, runs): _merge_of(layout, runs) for layout in (_PLAIN, _WHOLE) for runs in RUNS}
    times = interleaved({case: partial(seconds, work) for case, work in merges.items()}, repeats)
    figures = [
        MeasuredFigure.of(
            f"merging {runs} runs, {layout.columns} columns",
            [_TUPLES / taken for taken in times[layout, runs]],
            "tuples/s",
            TARGET,
            "least",
        )
        for layout, runs in merges
    ]
    sweeps = interleaved({"sweep": partial(seconds, _sweep())}, repeats)["sweep"]
    rates = [_SWEPT / taken for taken in sweeps]
    return [*figures, MeasuredFigure.of("sweep over two streams, a partner each", rates, "tuples/s")]


def _merge_of(layout: Layout, runs: int) -> Callable[[], None]:
    """A merge of equally long runs of random keys."""
    store, randomness = VirtualSpill(), np.random.default_rng(1)
    sources = []
    for group in range(runs):
        columns = np.zeros((layout.columns, _TUPLES // runs), np.int64)
        columns[KEY] = np.sort(randomness.integers(0, 2**40, columns.shape[1]))
        run = Run(store)
        run.append(columns)
        sources.append(Source(run, 0, group))

    def work() -> None:
        merge = RunMerge(store, layout, sources, _PAGE_MEMORY)
        table = np.empty((layout.table_rows, _COLUMNS), np.int64)
        while merge.left:
            merge.take(table, 0, _COLUMNS)

    return work


def _sweep() -> Callable[[], None]:
    """A sweep over the tuples of two streams, in turn, that have the same keys."""
    table = np.zeros((_PLAIN.table_rows, _SWEPT), np.int64)
    table[KEY] = np.arange(_SWEPT) // 2
    table[_PLAIN.stream] = np.arange(_SWEPT) % 2
    table[_PLAIN.group] = -1
    sweep = sweep_for(Equality(), _PLAIN)

    def work() -> None:
        results = sweep.join(table, Columns(0, 0, 0, _SWEPT), np.ones(2, bool), ALWAYS)
        assert results.shape[1] == _SWEPT // 2

    return work
