"""Screening: tells stream tuples that can be loaded from records that never can."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_jobs.loading.outcome import Held
from spark_jobs.warehouse.event_columns import RAW, EventColumns


def screen(tuples: pa.Table, event: EventColumns) -> tuple[pa.Table, list[Held]]:
    """Take out the records that do not fit the schema, and those without an event id.

    Args:
        tuples: stream tuples as the source gives them, shape (n,).
        event: the pipeline's event columns.

    Returns:
        The sound tuples, and the rejected ones by reason. O(1) where all are sound.
    """
    rejected: list[Held] = []
    if tuples[RAW].null_count < tuples.num_rows:
        malformed = tuples[RAW].is_valid().to_numpy()
        reason = "malformed: the record does not fit the source's schema"
        rejected.append(Held("rejected", reason, None, tuples.filter(pa.array(malformed))))
        tuples = tuples.filter(pa.array(~malformed))
    for column in event.event_id:
        if tuples[column].null_count:
            missing = tuples[column].is_null().to_numpy()
            reason = f"event id: {column} is null, and an event id must not be"
            rejected.append(Held("rejected", reason, None, tuples.filter(pa.array(missing))))
            tuples = tuples.filter(pa.array(np.logical_not(missing)))
    return tuples, rejected
