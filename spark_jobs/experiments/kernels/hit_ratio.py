"""How often the front stage hits, beside an oracle that has always known which tuples of R are the most frequent."""

from __future__ import annotations

import numpy as np

from spark_jobs.experiments.kernels.measured_figure import MeasuredFigure
from spark_jobs.experiments.virtual_relation import FREE_DISK, VirtualClock, VirtualDisk, VirtualRelation
from spark_jobs.joins.semi_stream.cached_join import CachedJoin
from spark_jobs.joins.semi_stream.hybrid_join import HybridJoin
from spark_jobs.workload.zipf import ZipfDistribution, ZipfKeys

TARGET = 0.97
EXPONENTS = (0.5, 1.0, 1.2)
_ROW_COUNT = 200_000
_PAGE_ROWS = 500
_TUPLE_BYTES = 120
_MEMORY_BYTES = _ROW_COUNT * _TUPLE_BYTES // 10
_LEARNING = 2_000_000
_MEASURED = 1_000_000


def measure(repeats: int) -> list[MeasuredFigure]:
    """Hits of cached_hybrid_join by those of the oracle with as many slots, for each Zipf exponent; R is shuffled."""
    return [
        MeasuredFigure.of(
            f"front-stage hits by the oracle's, exponent {exponent:g}",
            [hits_by_oracle(exponent, seed) for seed in range(repeats)],
            "ratio",
            TARGET,
            "least",
        )
        for exponent in EXPONENTS
    ]


def hits_by_oracle(exponent: float, seed: int, learning: int = _LEARNING, measured: int = _MEASURED) -> float:
    """Let a cached join learn a stream; the part of its hits that an oracle would have had.

    Args:
        exponent: Zipf exponent of the stream's keys.
        seed: of the stream, and of the order in which R holds the tuples of each rank.
        learning: stream tuples before those that count.
        measured: stream tuples that count.
    """
    disk = VirtualDisk(FREE_DISK, VirtualClock())
    relation = VirtualRelation(_ROW_COUNT, disk, tuple_bytes=_TUPLE_BYTES, page_rows=_PAGE_ROWS)
    join = CachedJoin(relation, _MEMORY_BYTES, HybridJoin)
    keys = ZipfKeys(np.arange(_ROW_COUNT), exponent, shuffle_seed=[seed])
    random = np.random.default_rng(seed)

    def settle(count: int) -> None:
        until = join.statistics.pushed + count
        while join.statistics.pushed < until:
            room = join.room
            drawn = keys.draw(room, random)
            join.push(drawn, relation.pages_of(drawn), np.arange(room))
            join.advance()

    settle(learning)
    pushed, hits = join.statistics.pushed, join.statistics.extra["front_stage_hits"]
    settle(measured)
    reached = (join.statistics.extra["front_stage_hits"] - hits) / (join.statistics.pushed - pushed)
    most_frequent = ZipfDistribution(_ROW_COUNT, exponent).probabilities()[: join.front_stage.capacity]
    return reached / float(most_frequent.sum())
