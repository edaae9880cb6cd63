"""How many counters of a sketch a second are updated: hash sketches a table at a time, AGMS an atom at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from spark_jobs.experiments.kernels.measured_figure import MeasuredFigure, interleaved, seconds
from spark_jobs.sketches.agms import AgmsSketch
from spark_jobs.sketches.hash_sketch import HashSketch
from spark_jobs.sketches.linear_sketch import LinearSketch

TARGET = 20e6
# Tables by buckets: small ones, 001's largest, and one that the processor's first caches don't hold.
SHAPES = ((5, 256), (59, 250), (5, 262_144))
_VALUES = 1_000_000
# As many counters are updated by far fewer values in the basic sketch.
_BASIC_SHAPE = (11, 240)
_BASIC_VALUES = 50_000


def measure(repeats: int) -> list[MeasuredFigure]:
    """Updates per second, of values in random order, some of them deletes."""
    random = np.random.default_rng(5)
    values, weights = random.integers(-(2**63), 2**63, _VALUES), random.integers(-3, 9, _VALUES)

    def updates(sketch: LinearSketch, count: int) -> Callable[[], float]:
        return partial(seconds, partial(sketch.update, values[:count], weights[:count]))

    cases: dict[str, tuple[Callable[[], float], int, float | None]] = {
        f"hash sketch, {tables} tables of {buckets:,} buckets": (
            updates(HashSketch(tables, buckets, seed=1), _VALUES),
            tables * _VALUES,
            TARGET,
        )
        for tables, buckets in SHAPES
    }
    groups, atoms = _BASIC_SHAPE
    basic = updates(AgmsSketch(groups, atoms, seed=1), _BASIC_VALUES)
    cases[f"AGMS, {groups} groups of {atoms} atoms"] = (basic, groups * atoms * _BASIC_VALUES, None)
    observed = interleaved({name: update for name, (update, _, _) in cases.items()}, repeats)
    return [
        MeasuredFigure.of(name, [done / taken for taken in observed[name]], "updates/s", target, "least")
        for name, (_, done, target) in cases.items()
    ]
