"""Fetching: adds a lookup's columns of R to stream tuples, and applies its rule for keys that are not in R."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.pipeline.batch_context import LookupPlan
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.relation_rows import RelationRows
from spark_jobs.warehouse.outcome import Held


def stream_keys(tuples: pa.Table, plan: LookupPlan) -> KeyColumns:
    """The join keys of stream tuples, shape (n,)."""
    return KeyColumns.encode([tuples[column] for column in plan.spec.stream_columns], plan.spec.key_kinds)


def fetch(rows: RelationRows, indices: NDArray[np.int64]) -> pa.Table:
    """The fetched columns for stream tuples: row indices[i] of R for tuple i, nulls where that is negative."""
    if indices.size and indices.min() >= 0:
        return rows.columns.take(pa.array(indices))
    return rows.columns.take(pa.array(indices, mask=indices < 0))


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
