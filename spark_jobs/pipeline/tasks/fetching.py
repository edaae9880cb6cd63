"""Fetching: adds a lookup's columns of R to stream tuples, and says why there are none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.pipeline.tasks.batch_context import LookupPlan
from spark_jobs.relation.arrow_buffers import single_array
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.relation_rows import RelationRows
from spark_jobs.relation.versions import fetched_at
from spark_jobs.warehouse.loading.outcome import Held


def stream_keys(tuples: pa.Table, plan: LookupPlan) -> KeyColumns:
    """The join keys of stream tuples, shape (n,)."""
    return KeyColumns.encode([tuples[column] for column in plan.spec.stream_columns], plan.spec.key_kinds)


class Fetched(NamedTuple):
    """What n stream tuples get of R.

    Attributes:
        columns: the fetched columns, n rows; null where nothing was found.
        versionless: bool, shape (n,): where R has the key, but none of its versions was valid at the event's time.
    """

    columns: pa.Table
    versionless: NDArray[np.bool_]


def fetch(rows: RelationRows, indices: NDArray[np.int64], plan: LookupPlan, times: pa.ChunkedArray) -> Fetched:
    """The fetched columns for n stream tuples.

    Args:
        rows: tuples of R.
        indices: int64, shape (n,), the row of R that each stream tuple has found; negative: none.
        plan: the lookup.
        times: event time of each, shape (n,); matters only where R keeps versions.
    """
    if plan.spec.validity is not None:
        columns, valid = fetched_at(rows.columns, indices, single_array(times))
        return Fetched(columns, (indices >= 0) & ~valid)
    found = pa.array(indices) if indices.size and indices.min() >= 0 else pa.array(indices, mask=indices < 0)
    return Fetched(rows.columns.take(found), np.zeros(len(indices), np.bool_))


def with_defaults(fetched: pa.Table, plan: LookupPlan, unmatched: NDArray[np.bool_]) -> pa.Table:
    """Put the lookup's defaults where a tuple is unmatched."""
    mask = pa.array(unmatched)
    columns = [pc.if_else(mask, plan.defaults[field.name], fetched[field.name]) for field in fetched.schema]
    return pa.table(columns, schema=fetched.schema)


def hold_unmatched(tuples: pa.Table, plan: LookupPlan, reason: str) -> Held:
    """Tuples without a match, to be held or rejected as the lookup says."""
    place = "rejected" if plan.on_unmatched == "reject" else "unmatched"
    return Held(place, reason, plan.spec.relation, tuples)  # type: ignore[arg-type]


def unmatched_reason(plan: LookupPlan) -> str:
    """Why a tuple with a sound key is unmatched."""
    return f"no tuple of {plan.spec.relation} has the key in {', '.join(plan.spec.stream_columns)}"


def invalid_key_reason(plan: LookupPlan) -> str:
    """Why a tuple with an unusable key is unmatched."""
    columns = ", ".join(plan.spec.stream_columns)
    return f"the key in {columns} is null, or no value of the key's type in {plan.spec.relation}"


def versionless_reasons(
    plan: LookupPlan, versionless: NDArray[np.bool_], times: pa.ChunkedArray, event_time: str
) -> Iterator[tuple[NDArray[np.bool_], str]]:
    """Why no version of a tuple of R was found, where its key was.

    Args:
        plan: the lookup.
        versionless: bool, shape (n,), as fetched.
        times: event time of each stream tuple.
        event_time: name of their column.

    Yields:
        Bool, shape (n,), and the reason for those.
    """
    if not versionless.any():
        return
    timeless = versionless & times.is_null().to_numpy()
    relation, columns = plan.spec.relation, ", ".join(plan.spec.stream_columns)
    yield timeless, f"the event's time in {event_time} is null, so that no version of {relation} can be told"
    version = f"no version of {relation} with the key in {columns}"
    yield versionless & ~timeless, f"{version} was valid at the event's time in {event_time}"
