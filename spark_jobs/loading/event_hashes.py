"""Hash codes of event ids as a column of their tuples: computed once, then carried along to all that ask for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.event_id import event_hashes
from spark_jobs.warehouse.fact_table import FactColumn

EVENT_HASH = "_event_hash"


def with_hashes(tuples: pa.Table, key: Sequence[FactColumn]) -> pa.Table:
    """The tuples with `_event_hash`. O(1) where they have it already, else O(n).

    Args:
        tuples: shape (n,), with the columns of the event id.
        key: these columns, those of the fact table's key.
    """
    if EVENT_HASH in tuples.column_names:
        return tuples
    return tuples.append_column(EVENT_HASH, pa.array(event_hashes(tuples, key)))


def hashes_of(tuples: pa.Table) -> NDArray[np.int64]:
    """The codes of tuples that carry them, shape (n,)."""
    return codes(tuples[EVENT_HASH])


def codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """The codes that a column holds, shape (n,)."""
    # Arrow's own memory is read-only where it is one chunk: for numba another type, to be compiled in mid-stream.
    return np.require(column.to_numpy(), requirements="W")
