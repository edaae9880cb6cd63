"""The join of streams as its definition says it: every tuple with every other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from spark_jobs.joins.stream_stream.base import Tuples


@dataclass(frozen=True)
class Row:
    """A tuple; valid in [start, end)."""

    id: int
    key: int
    high: int
    start: int
    end: int


Matches = Callable[[Row, Row], bool]


def naive_join(streams: Sequence[Sequence[Row]], matches: Matches) -> dict[tuple[int, ...], tuple[int, int]]:
    """For each result, the ids that it is made of, from when and until when it is valid."""
    partial: list[tuple[Row, ...]] = [()]
    for stream in streams:
        partial = [
            (*rows, row)
            for rows in partial
            for row in stream
            if all(matches(other, row) and other.start < row.end and row.start < other.end for other in rows)
        ]
    return {
        tuple(row.id for row in rows): (max(row.start for row in rows), min(row.end for row in rows))
        for rows in partial
    }


def tuples_of(rows: Sequence[Row], *, intervals: bool, validity: bool) -> Tuples:
    """Rows as a join takes them."""
    columns = np.array([(row.id, row.key, row.high, row.start, row.end) for row in rows], np.int64).reshape(-1, 5).T
    ids, keys, highs, starts, ends = (np.ascontiguousarray(column) for column in columns)
    return Tuples(ids, keys, highs if intervals else None, starts if validity else None, ends if validity else None)
