"""Fetching: adds a lookup's columns of R to stream tuples, and says why there are none."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.definition.fates import NOT_FOUND, UNMATCHED
from spark_jobs.loading.outcome import Held
from spark_jobs.lookup.planning.lookup_plan import LookupPlan


class LookedUp(NamedTuple):
    """What a lookup made of n stream tuples.

    Attributes:
        columns: the fetched columns, n rows: null where nothing was found, defaults where the lookup has them.
        unmatched: bool, shape (n,), and the reason for those: tuples that can't become facts without a match. They
            are different tuples from one pair to the next.
    """

    columns: pa.Table
    unmatched: list[tuple[NDArray[np.bool_], str]]


def look_up(
    found: pa.Table,
    indices: NDArray[np.int64],
    absent: NDArray[np.bool_],
    plan: LookupPlan,
    times: pa.ChunkedArray,
    event_time: str,
) -> LookedUp:
    """Fetch the columns of R for n stream tuples, and tell what is unmatched.

    Args:
        found: what tuples of R hold besides their keys.
        indices: int64, shape (n,), the row of them that each stream tuple has found; negative: none.
        absent: bool, shape (n,): where R has no tuple. What is neither found nor absent has not been looked for yet.
        plan: the lookup.
        times: event time of each, shape (n,); matters only where R keeps versions.
        event_time: the name of its column.
    """
    columns, versionless = plan.fetched(found, indices, times)
    if plan.on_unmatched == "default":
        return LookedUp(_with_defaults(columns, plan, absent | versionless), [])
    relation, key = plan.spec.relation, ", ".join(plan.spec.stream_columns)
    reasons = (
        (absent, f"no tuple of {relation} has the key in {key}"),
        (versionless, f"no version of {relation} with the key in {key} was valid at the event's time in {event_time}"),
    )
    return LookedUp(columns, [(where, reason) for where, reason in reasons if where.any()])


def _with_defaults(fetched: pa.Table, plan: LookupPlan, unmatched: NDArray[np.bool_]) -> pa.Table:
    if not unmatched.any():
        return fetched
    mask = pa.array(unmatched)
    columns = [pc.if_else(mask, plan.defaults[field.name], fetched[field.name]) for field in fetched.schema]
    return pa.table(columns, schema=fetched.schema)


def hold_unmatched(tuples: pa.Table, plan: LookupPlan, reason: str) -> Held:
    """Tuples without a match, to be held or rejected as the lookup says."""
    return Held(NOT_FOUND if plan.on_unmatched == "reject" else UNMATCHED, reason, plan.spec.relation, tuples)
