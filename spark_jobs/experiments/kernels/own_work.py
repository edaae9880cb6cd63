"""The joins' own work on a disk that costs nothing: per stream tuple, page tuple and step, with and without skew."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from spark_jobs.experiments.kernels.measured_figure import MeasuredFigure, interleaved, seconds
from spark_jobs.experiments.virtual_relation import FREE_DISK, VirtualClock, VirtualDisk, VirtualRelation
from spark_jobs.joins.semi_stream import create
from spark_jobs.workload.zipf import ZipfKeys

# Nanoseconds per stream tuple and per page tuple that are aimed at; the relatives stand beside for comparison.
TARGETS: dict[str, tuple[float | None, float | None]] = {"hybrid_join": (150.0, 10.0), "mesh_join": (None, None)}
WAITING = (50_000, 500_000)
PAGE_ROWS = (200, 1_000, 4_000)
# Keys of R per waiting tuple: uniform keys then give HYBRIDJOIN 2 page_rows / this matches per page, MESHJOIN half.
KEYS_PER_WAITING = (2, 10)
_TUPLE_BYTES = 120
_WAITING_TUPLE_BYTES = 44
_SETTLED = 200_000
_MOST_STEPS = 5_000

SKEWED_ALGORITHMS = ("hybrid_join", "cached_hybrid_join")
_SKEWED_WAITING = 500_000
_ROW_COUNT = 2_000_000
_SKEWED_PAGE_ROWS = 500
_EXPONENT = 1.0
# Stretches until the front stage knows the stream.
_LEARNING = 15


class Work(NamedTuple):
    """What a stretch of a run did, and how long it took, all in numbers of one unit each."""

    stream_tuples: int
    page_tuples: int
    steps: int
    seconds: float


class FullJoin:
    """A join whose memory is full: as many stream tuples come as each step settles.

    Args:
        algorithm: its name in the catalogue.
        waiting: stream tuples that HYBRIDJOIN has waiting in that memory; MESHJOIN has more.
        row_count: tuples of R.
        page_rows: tuples of a page of R.
        exponent: Zipf exponent of the stream's keys; R is shuffled.
    """

    def __init__(self, algorithm: str, waiting: int, row_count: int, page_rows: int, exponent: float = 0.0) -> None:
        self.relation = VirtualRelation(
            row_count, VirtualDisk(FREE_DISK, VirtualClock()), tuple_bytes=_TUPLE_BYTES, page_rows=page_rows
        )
        memory = waiting * _WAITING_TUPLE_BYTES + self.relation.page_bytes * 5 // 4
        self.join = create(algorithm, self.relation, memory)
        random = np.random.default_rng(waiting + row_count + page_rows)
        keys = ZipfKeys(np.arange(row_count), exponent, shuffle_seed=[row_count])
        self._keys = keys.draw(2 * max(waiting, _SETTLED), random)
        self._pages = self.relation.pages_of(self._keys)
        self._ids = np.arange(len(self._keys))
        self._next = 0
        while self.join.statistics.pages_read < self.relation.page_count:  # MESHJOIN is full after a cycle
            self._refill()
            self.join.advance()

    def stretch(self) -> Work:
        """Settle about 200,000 stream tuples, or do 5,000 steps."""
        statistics = self.join.statistics
        matched, probes, pages = statistics.matched, statistics.probes, statistics.pages_read
        taken = seconds(partial(self._settle, matched + _SETTLED, pages + _MOST_STEPS))
        return Work(statistics.matched - matched, statistics.probes - probes, statistics.pages_read - pages, taken)

    def _settle(self, matched: int, pages: int) -> None:
        statistics = self.join.statistics
        while statistics.matched < matched and statistics.pages_read < pages:
            self.join.advance()
            self._refill()

    def _refill(self) -> None:
        room = min(self.join.room, len(self._keys))
        if self._next + room > len(self._keys):
            self._next = 0
        drawn = slice(self._next, self._next + room)
        # The ids are not unique, which costs nothing and concerns the caller only.
        self.join.push(self._keys[drawn], self._pages[drawn], self._ids[drawn])
        self._next += room


def measure(repeats: int) -> list[MeasuredFigure]:
    """For each algorithm and memory the three parts, fitted over page sizes and sizes of R."""
    figures = []
    for waiting in WAITING:
        circumstances = [(waiting * keys, page_rows) for page_rows in PAGE_ROWS for keys in KEYS_PER_WAITING]
        for algorithm, (stream_tuple_target, page_tuple_target) in TARGETS.items():
            runs = [FullJoin(algorithm, waiting, row_count, page_rows) for row_count, page_rows in circumstances]
            observed = interleaved({number: run.stretch for number, run in enumerate(runs)}, repeats)
            fits = [fitted(works) for works in zip(*observed.values(), strict=True)]
            stream_tuple, page_tuple, step = np.array(fits).T.tolist()
            name = f"{algorithm}, memory for {waiting:,}"
            figures += [
                MeasuredFigure.of(f"{name}: per stream tuple", stream_tuple, "ns", stream_tuple_target),
                MeasuredFigure.of(f"{name}: per page tuple", page_tuple, "ns", page_tuple_target),
                MeasuredFigure.of(f"{name}: per step besides", step, "ns"),
            ]
    return figures


def fitted(works: Sequence[Work]) -> tuple[float, float, float]:
    """Nanoseconds per stream tuple, page tuple and step that explain runs best, by their relative errors."""
    counts = np.array([work[:3] for work in works], np.float64)
    nanoseconds = np.array([work.seconds * 1e9 for work in works])
    (stream_tuple, page_tuple, step), *_ = np.linalg.lstsq(
        counts / nanoseconds[:, None], np.ones(len(works)), rcond=None
    )
    return float(stream_tuple), float(page_tuple), float(step)


def measure_skewed(repeats: int) -> list[MeasuredFigure]:
    """Nanoseconds and page loads per stream tuple at exponent 1, memory about 10 % of R."""
    runs = {
        name: FullJoin(name, _SKEWED_WAITING, _ROW_COUNT, _SKEWED_PAGE_ROWS, _EXPONENT) for name in SKEWED_ALGORITHMS
    }
    for run in runs.values():
        for _ in range(_LEARNING):
            run.stretch()
    figures = []
    for name, works in interleaved({name: run.stretch for name, run in runs.items()}, repeats).items():
        spent = [work.seconds * 1e9 / work.stream_tuples for work in works]
        loads = [1000 * work.steps / work.stream_tuples for work in works]
        figures += [
            MeasuredFigure.of(f"{name}, exponent 1: per stream tuple, all in all", spent, "ns"),
            MeasuredFigure.of(f"{name}, exponent 1: page loads", loads, "per 1,000 tuples"),
        ]
    return figures
