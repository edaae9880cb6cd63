"""Stream tuples as they arrive in a task: some records of one slice, decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from spark_jobs.loading.outcome import Held

if TYPE_CHECKING:
    from spark_jobs.ledger.source_ranges import RecordMark


class Arrivals(NamedTuple):
    """Some records of one slice.

    Attributes:
        tuples: shape (n,): the source's columns, `_arrived_at`, `_record`, `_range` and `_position`
            (spark_jobs.definition.stream_tuple).
        rejected: the records that could not be decoded, with the reason; the same columns, those of the source null.
        records: how many records were read, decoded or not.
        ignored: records besides them that the source's definition wants to be passed over.
        mark: of a partition, the last record that was read.
    """

    tuples: pa.Table
    rejected: list[Held]
    records: int
    ignored: int = 0
    mark: RecordMark | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all of them in memory."""
        return self.tuples.nbytes + sum(group.tuples.nbytes for group in self.rejected)
