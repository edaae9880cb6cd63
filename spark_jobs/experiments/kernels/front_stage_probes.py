"""How many stream tuples a second the front stage's hot set is probed for."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from spark_jobs.experiments.kernels.measured_figure import MeasuredFigure, interleaved, seconds
from spark_jobs.joins.semi_stream.hot_set import HotSet

TARGET = 20e6
SLOTS = (1_000, 10_000, 100_000, 1_000_000)
HIT_SHARES = (0.0, 0.5, 0.9)
_PROBES = 1_000_000
_KEYS_PER_SLOT = 8


def measure(repeats: int) -> list[MeasuredFigure]:
    """Probes per second for each size of the hot set and each share of hits, keys in random order."""
    random = np.random.default_rng(3)
    cases = {}
    for slots in SLOTS:
        # The keys that miss lie among those that hit: nothing but the table can tell them apart.
        keys = random.permutation(slots * _KEYS_PER_SLOT)
        hot_set, _ = HotSet.arranged(1, keys[:slots])
        for share in HIT_SHARES:
            probes = _mixed(random, keys, slots, share)
            cases[slots, share] = partial(seconds, partial(hot_set.probe, probes))
    return [
        MeasuredFigure.of(
            f"front stage, {slots:,} slots, {share:.0%} hits",
            [_PROBES / taken for taken in times],
            "probes/s",
            TARGET,
            "least",
        )
        for (slots, share), times in interleaved(cases, repeats).items()
    ]


def _mixed(random: np.random.Generator, keys: NDArray[np.int64], slots: int, share: float) -> NDArray[np.int64]:
    """Keys of which about this share are among the first `slots`."""
    hits = random.integers(0, slots, _PROBES)
    misses = random.integers(slots, len(keys), _PROBES)
    return keys[np.where(random.random(_PROBES) < share, hits, misses)]
