"""A stream tuple: which of its columns make the event, and counts of tuples by place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from spark_jobs.definition.fates import PLACES, Place

if TYPE_CHECKING:
    from spark_jobs.definition.source import Source

# Columns that every stream tuple has besides those of its source.
ARRIVED_AT = "_arrived_at"
# The record's own bytes: what a held tuple keeps. Null for records of Parquet files.
RECORD = "_record"
# Where the record came from: int32, number of the range within its batch, and int64, its position there: the offset of
# its first byte in the (unpacked) file, the number of its row in a Parquet file, its offset in a partition.
RANGE = "_range"
POSITION = "_position"

# Reserved source of a fact column: the number of the batch, or of the reprocessing run, that stored the fact.
BATCH_NO = "_batch_no"


@dataclass(frozen=True)
class EventColumns:
    """A pipeline's event columns, by their names in the stream tuple.

    Attributes:
        pipeline: the pipeline's name.
        event_id: columns that tell events apart, in the order of the definition.
        event_time: timestamp column, when the event happened.
        source_columns: all columns that the source gave, in its order.
        format: that records have while they are held.
    """

    pipeline: str
    event_id: tuple[str, ...]
    event_time: str
    source_columns: tuple[str, ...]
    format: str

    @classmethod
    def of(cls, pipeline: str, source: Source) -> EventColumns:
        """Those of a source's tuples."""
        held_as = source.record_format.held_as
        return cls(pipeline, source.event_id, source.event_time, tuple(source.columns), held_as)


class LoadCounts(NamedTuple):
    """What became of tuples: how many are facts, how many in each other place.

    Attributes:
        duplicates: tuples whose event id was stored already; they are stored nowhere.
    """

    facts: int = 0
    shed: int = 0
    unmatched: int = 0
    rejected: int = 0
    duplicates: int = 0

    @classmethod
    def of(cls, facts: int, held: Mapping[Place, int], duplicates: int = 0) -> LoadCounts:
        """Counts of what is stored as facts, and held in each place."""
        return cls(facts=facts, duplicates=duplicates, **{place: held.get(place, 0) for place in PLACES})

    def __add__(self, other: object) -> LoadCounts:
        """Sums, count by count."""
        if not isinstance(other, LoadCounts):
            return NotImplemented
        return LoadCounts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))
