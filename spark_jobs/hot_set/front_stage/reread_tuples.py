"""Puts tuples of R that were read again into the place of what they were."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.semi_stream.front_stage import HotSet
from spark_jobs.relation.relation_rows import RelationRows

Int64Array = NDArray[np.int64]


def with_reread(
    rows: RelationRows, hot_set: HotSet, asked: Int64Array, found: RelationRows
) -> tuple[RelationRows, Int64Array]:
    """Hot tuples with those that were read again as they are now.

    Args:
        rows: the hot tuples, in the order of the slots.
        hot_set: their keys.
        asked: int64, shape (n,), codes of the keys that were looked up; some may have left the hot set since.
        found: what R has of them.

    Returns:
        The tuples, in the same slots; and the slots of those that R no longer has, int64, ascending. O(slots).
    """
    slots = hot_set.probe(found.keys.codes)
    there = np.flatnonzero(slots >= 0)
    asked_slots = hot_set.probe(asked)
    gone = np.setdiff1d(asked_slots[asked_slots >= 0], slots)
    if not there.size:
        return rows, gone
    sources = np.arange(len(rows))
    sources[slots[there]] = len(rows) + there
    return RelationRows.concatenate([rows, found]).take(sources), gone
