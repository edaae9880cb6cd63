"""How a front stage's task gets its stream tuples: from Spark's reader, or by reading landed files itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa

from spark_jobs.loading.outcome import Held


class Arrivals(NamedTuple):
    """Some stream tuples that have arrived.

    Attributes:
        tuples: shape (n,), the source's columns, `_arrived_at` and `_raw`.
        rejected: what was found unreadable already.
    """

    tuples: pa.Table
    rejected: list[Held]


# Turns what `mapInArrow` hands to a task into arrivals.
ArrivalsReader = Callable[[Iterator[pa.RecordBatch]], Iterator[Arrivals]]


def read_by_spark(batches: Iterator[pa.RecordBatch]) -> Iterator[Arrivals]:
    """Spark's reader has made the tuples already."""
    for batch in batches:
        yield Arrivals(pa.Table.from_batches([batch]), [])
