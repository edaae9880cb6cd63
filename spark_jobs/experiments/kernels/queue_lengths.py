"""Refill, delete and emit of HYBRIDJOIN by queue length: amortised constant, whatever waits."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from spark_jobs.experiments.kernels.measured_figure import MeasuredFigure, interleaved, seconds, timed
from spark_jobs.joins.structures.page_probe import PageProbe
from spark_jobs.joins.structures.stream_tuples import StreamTuples

# 150 ns a stream tuple, and 10 ns for the one page tuple that each comes with here.
TARGET = 160.0
LENGTHS = (10_000, 100_000, 1_000_000, 10_000_000)
_WAITING_PER_PAGE = 500
_PAGE_ROWS = 500
# What HYBRIDJOIN gives the index of a page of tuples of 120 bytes.
_INDEX_BYTES_PER_ROW = 30
_PAGES_PER_ROUND = 200


class Costs(NamedTuple):
    """Nanoseconds per stream tuple."""

    delete: float
    emit: float
    refill: float


class FullQueue:
    """A full queue in which about 500 tuples wait for each page of R.

    Args:
        length: stream tuples.
    """

    def __init__(self, length: int) -> None:
        self._random = np.random.default_rng(length)
        self._waiting = StreamTuples(length)
        self._probe = PageProbe(_INDEX_BYTES_PER_ROW * _PAGE_ROWS)
        self._page_count = length // _WAITING_PER_PAGE
        keys = self._random.integers(0, self._page_count * _PAGE_ROWS, length)
        self._waiting.append(keys, keys // _PAGE_ROWS, np.arange(length))

    def turn_over(self) -> Costs:
        """Delete and emit the tuples of 200 pages, one after the other, and refill the queue with others each time."""
        spent = np.zeros(len(Costs._fields))
        settled = 0
        for page in self._random.integers(0, self._page_count, _PAGES_PER_ROUND).tolist():
            delete, (keys, ids) = timed(partial(self._waiting.take_page, page))
            page_keys = np.arange(page * _PAGE_ROWS, (page + 1) * _PAGE_ROWS)
            emit = seconds(partial(self._probe.join, keys, ids, page_keys))
            others = self._random.integers(0, self._page_count * _PAGE_ROWS, len(keys))
            refill = seconds(partial(self._waiting.append, others, others // _PAGE_ROWS, ids))
            spent += Costs(delete, emit, refill)
            settled += len(keys)
        return Costs(*(spent / settled * 1e9).tolist())


def measure(repeats: int) -> list[MeasuredFigure]:
    """Nanoseconds per stream tuple for each queue length.

    What grows is the wait for memory alone: 10 million tuples take 440 MB, which no cache holds.
    """
    observed = interleaved({length: FullQueue(length).turn_over for length in LENGTHS}, repeats)
    parts = [
        MeasuredFigure.of(f"{name}, {length:,} waiting", [getattr(costs, name) for costs in rounds], "ns a tuple")
        for name in Costs._fields
        for length, rounds in observed.items()
    ]
    return parts + [
        MeasuredFigure.of(f"all three, {length:,} waiting", [sum(costs) for costs in rounds], "ns a tuple", TARGET)
        for length, rounds in observed.items()
    ]
