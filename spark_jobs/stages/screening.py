"""Screening: stream tuples without an event id are rejected."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_jobs.definition.stream_tuple import EventColumns
from spark_jobs.loading.outcome import Held


def screen(tuples: pa.Table, event: EventColumns) -> tuple[pa.Table, list[Held]]:
    """Take out the tuples without an event id.

    Args:
        tuples: stream tuples as they arrive, shape (n,).
        event: the pipeline's event columns.

    Returns:
        The sound tuples, and the rejected ones by reason. O(1) where all are sound.
    """
    rejected: list[Held] = []
    for column in event.event_id:
        if tuples[column].null_count:
            missing = tuples[column].is_null().to_numpy()
            reason = f"event id: {column} is null, and an event id must not be"
            rejected.append(Held("rejected", reason, None, tuples.filter(pa.array(missing))))
            tuples = tuples.filter(pa.array(np.logical_not(missing)))
    return tuples, rejected
