"""The data of 002 §3: five streams, of whose tuples a share, the join selectivity, finds its key in all others.

The paper says no more of its data than that. A tuple that fails is taken here to find its key in each other stream with
a chance of two thirds, not in all: MJoin then needs (n - 1) / 2 = 2 probes for it, as the paper reckons (§2.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_jobs.experiments.papers.figure_setting import FigureSetting
from spark_jobs.joins.stream_stream.theory.multi_way_model import (
    am_join_probes,
    failing_probes,
)

Int64Array = NDArray[np.int64]

STREAMS = 5
SELECTIVITIES = (0.01, 0.025, 0.05, 0.075, 0.1)
FAILING_SHARE = 2 / 3
_PAPER_TUPLES = 1_600_000
_LEAST_TUPLES = 100_000
_BATCH = 1024
DATA = (
    "What the paper leaves open: 1.6 million tuples at its scale; a tuple that fails finds its key in each other "
    "stream with a chance of 2/3."
)


class Batch(NamedTuple):
    """Tuples of one stream."""

    stream: int
    keys: Int64Array
    ids: Int64Array


def tuple_count(setting: FigureSetting) -> int:
    """Tuples of all streams that are in memory while others are joined with them."""
    return max(_LEAST_TUPLES, int(_PAPER_TUPLES * setting.scale.hybrid_join_part))


class Streams:
    """Five streams whose tuples, one for each stream and key, can come again.

    Args:
        tuples: roughly how many in all.
        selectivity: part of them whose key all streams have.
        seed: of all that is drawn.
    """

    def __init__(self, tuples: int, selectivity: float, seed: int = 1) -> None:
        self._random = np.random.default_rng(seed)
        # Of keys that some streams lack: in how many a key is that is in any.
        in_any = STREAMS * FAILING_SHARE * (1 - FAILING_SHARE ** (STREAMS - 1))
        in_any /= 1 - FAILING_SHARE**STREAMS - (1 - FAILING_SHARE) ** STREAMS
        complete = selectivity * in_any / (STREAMS * (1 - selectivity) + selectivity * in_any)
        keys = int(tuples / (complete * STREAMS + (1 - complete) * in_any))
        members = self._random.random((keys, STREAMS)) < FAILING_SHARE
        while (wrong := members.all(axis=1) | ~members.any(axis=1)).any():
            members[wrong] = self._random.random((int(wrong.sum()), STREAMS)) < FAILING_SHARE
        members[self._random.random(keys) < complete] = True
        names = self._random.permutation(4 * keys)[:keys]
        self._keys = [names[np.flatnonzero(members[:, stream])] for stream in range(STREAMS)]
        self._sent = [0] * STREAMS

    @property
    def count(self) -> int:
        """Tuples of all streams."""
        return sum(len(keys) for keys in self._keys)

    def all_once(self) -> Iterator[Batch]:
        """Every tuple, the streams in turn, each in an order of chance."""
        orders = [self._random.permutation(keys) for keys in self._keys]
        longest = max(len(keys) for keys in orders)
        for first in range(0, longest, _BATCH):
            for stream, keys in enumerate(orders):
                if first < len(keys):
                    yield self._batch(stream, keys[first : first + _BATCH])

    def some_again(self, tuples: int) -> Iterator[Batch]:
        """So many tuples more, with keys of those that have come."""
        for first in range(0, tuples, _BATCH):
            stream = first // _BATCH % STREAMS
            keys = self._random.choice(self._keys[stream], min(_BATCH, tuples - first))
            yield self._batch(stream, keys)

    def _batch(self, stream: int, keys: Int64Array) -> Batch:
        self._sent[stream] += len(keys)
        return Batch(stream, keys, np.arange(self._sent[stream] - len(keys), self._sent[stream]))


def predicted_m_join_probes(selectivity: float) -> float:
    """Of MJoin, whatever its order: the streams are alike."""
    others = STREAMS - 1
    return selectivity * others + (1 - selectivity) * failing_probes([FAILING_SHARE] * others)


def predicted_am_join_probes(selectivity: float) -> float:
    """Of AMJoin."""
    return am_join_probes(STREAMS, selectivity)
