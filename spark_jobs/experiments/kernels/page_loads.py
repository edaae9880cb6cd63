"""How many pages of R the joins load, beside the fewest that one could do with who knows the stream in advance."""

from __future__ import annotations

import numpy as np

from spark_jobs.experiments.kernels.measured_figure import MeasuredFigure
from spark_jobs.experiments.virtual_relation import FREE_DISK, VirtualClock, VirtualDisk, VirtualRelation
from spark_jobs.joins.semi_stream import create
from spark_jobs.joins.semi_stream.theory.clairvoyant_bound import fewest_page_loads
from spark_jobs.workload.zipf import ZipfKeys

ALGORITHMS = ("hybrid_join", "mesh_join")
EXPONENTS = (0.0, 0.5, 1.0)
_ROW_COUNT = 200_000
_PAGE_ROWS = 200
_TUPLE_BYTES = 120
_MEMORY_BYTES = _ROW_COUNT * _TUPLE_BYTES // 20
_STREAM_TUPLES = 500_000


def measure(repeats: int) -> list[MeasuredFigure]:
    """Page loads per 1,000 joined tuples, and by the clairvoyant's bound, for each exponent; R is shuffled."""
    figures = []
    for exponent in EXPONENTS:
        for algorithm in ALGORITHMS:
            runs = [loads_and_bound(algorithm, exponent, seed) for seed in range(repeats)]
            name = f"{algorithm}, exponent {exponent:g}"
            loads = [1000 * loaded / _STREAM_TUPLES for loaded, _ in runs]
            figures += [
                MeasuredFigure.of(f"{name}: page loads", loads, "per 1,000 tuples"),
                MeasuredFigure.of(
                    f"{name}: by the clairvoyant's bound", [loaded / bound for loaded, bound in runs], "ratio"
                ),
            ]
    return figures


def loads_and_bound(algorithm: str, exponent: float, seed: int, stream_tuples: int = _STREAM_TUPLES) -> tuple[int, int]:
    """Join a stream from its first tuple to its last: the pages loaded, and the fewest that were possible.

    Args:
        algorithm: its name in the catalogue; one that keeps no tuples of R.
        exponent: Zipf exponent of the stream's keys.
        seed: of the stream, and of the order in which R holds the tuples of each rank.
        stream_tuples: its length.
    """
    disk = VirtualDisk(FREE_DISK, VirtualClock())
    relation = VirtualRelation(_ROW_COUNT, disk, tuple_bytes=_TUPLE_BYTES, page_rows=_PAGE_ROWS)
    join = create(algorithm, relation, _MEMORY_BYTES)
    keys = ZipfKeys(np.arange(_ROW_COUNT), exponent, shuffle_seed=[seed])
    stream = keys.draw(stream_tuples, np.random.default_rng(seed))
    pages = relation.pages_of(stream)
    waiting = pushed = 0
    while pushed < stream_tuples:
        arriving = np.arange(pushed, min(stream_tuples, pushed + join.room))
        join.push(stream[arriving], pages[arriving], arriving)
        pushed += len(arriving)
        waiting = max(waiting, join.pending)
        join.advance()
    for _ in join.finish():
        pass
    return join.statistics.pages_read, fewest_page_loads(pages, waiting)
