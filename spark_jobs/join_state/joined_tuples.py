"""Joined tuples: those of all streams side by side, with their latest times."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.columns.value_codes import ordered_codes_of
from spark_jobs.definition.correlation import COMPLETED_AT, qualified
from spark_jobs.definition.stream_tuple import ARRIVED_AT, POSITION, RANGE, RECORD
from spark_jobs.join_state.correlated import BucketPlan, CorrelatedStream
from spark_jobs.joins.stream_stream.predicates import Values

_NOT_OF_THE_SOURCE = (ARRIVED_AT, RECORD, RANGE, POSITION)


def side_by_side(streams: Sequence[CorrelatedStream], parts: Sequence[pa.Table]) -> pa.Table:
    """Joined tuples of their parts.

    Args:
        streams: in their order.
        parts: for each the tuples that the results are made of, shape (n,).

    Returns:
        Shape (n,): columns `stream.column` of all streams, `_completed_at`, and `_arrived_at` of the latest part.
    """
    columns = {
        qualified(stream.name, name): part[name]
        for stream, part in zip(streams, parts, strict=True)
        for name in part.column_names
        if name not in _NOT_OF_THE_SOURCE
    }
    columns[COMPLETED_AT] = _latest([part[stream.event_time] for stream, part in zip(streams, parts, strict=True)])
    columns[ARRIVED_AT] = _latest([part[ARRIVED_AT] for part in parts])
    return pa.table(columns)


def alone(streams: Sequence[CorrelatedStream], stream: int, tuples: pa.Table, columns: pa.Schema) -> pa.Table:
    """Joined tuples that have a part of one stream only, with nulls for the rest.

    Args:
        streams: in their order.
        stream: whose tuples are given.
        tuples: shape (n,).
        columns: of joined tuples.

    Returns:
        Shape (n,). `_arrived_at` is null: it is time that made them, and no arrival.
    """
    name, time = streams[stream].name, streams[stream].event_time
    own = {qualified(name, column): column for column in tuples.column_names if column not in _NOT_OF_THE_SOURCE}
    own[COMPLETED_AT] = time
    parts = [
        tuples[own[field.name]].cast(field.type) if field.name in own else pa.nulls(tuples.num_rows, field.type)
        for field in columns
    ]
    return pa.table(parts, schema=columns)


def _latest(times: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """The greatest of several times, row by row."""
    # Arrow compares whole numbers, but no times with a zone.
    return pc.max_element_wise(*(column.cast(pa.int64()) for column in times)).cast(times[0].type)


def have_same_keys(streams: Sequence[CorrelatedStream], parts: Sequence[pa.Table]) -> NDArray[np.bool_]:
    """In which results all parts have one key, and not only one code of it; bool, shape (n,). Arguments as above."""
    first, first_key = parts[0], streams[0].key
    same = np.ones(first.num_rows, np.bool_)
    for part, stream in zip(parts[1:], streams[1:], strict=True):
        for mine, theirs in zip(first_key, stream.key, strict=True):
            same &= pc.equal(first[mine], part[theirs]).to_numpy(zero_copy_only=False)
    return same


def match(plan: BucketPlan, parts: Sequence[pa.Table]) -> NDArray[np.bool_]:
    """In which results each two parts match by the plan's predicate; bool, shape (n,). Parts as above."""
    codes = [ordered_codes_of(part, stream.matched) for stream, part in zip(plan.streams, parts, strict=True)]
    values = [Values(each.codes, each.highs) for each in codes]
    return np.logical_and.reduce([plan.predicate.joins(*pair) for pair in combinations(values, 2)])
