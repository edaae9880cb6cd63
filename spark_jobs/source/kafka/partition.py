"""Pieces of a topic: a partition and its name in the ledger, a range of its offsets, a slice of that for a task."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.definition.kinds.kafka import OFFSET, PARTITION, TIMESTAMP, TOPIC
from spark_jobs.ledger.poison import Poison
from spark_jobs.ledger.source_ranges import RecordMark, SourceRange
from spark_jobs.source.slices import SourceSlice

# The id that Kafka gives a topic: 128 bits in Base64, which librdkafka writes with `/` among its digits.
_TOPIC_ID = "[A-Za-z0-9+/_-]{22}"
_UNIT = re.compile(rf"(?P<topic>[^:@/]+):(?P<partition>[0-9]+)@(?P<topic_id>{_TOPIC_ID})")
_OF_ANY_STREAM = rf"^(?:[^/]*/)?{_UNIT.pattern}$"


class Partition(NamedTuple):
    """A partition of one topic; a topic that is deleted and made anew under its name is another one.

    Attributes:
        topic: its name.
        number: the partition's, from 0.
        topic_id: the id that Kafka gave the topic when it was made.
    """

    topic: str
    number: int
    topic_id: str

    @property
    def unit(self) -> str:
        """Its name in the ledger."""
        return f"{self.topic}:{self.number}@{self.topic_id}"

    @classmethod
    def of(cls, unit: str) -> Partition | None:
        """The partition of a unit; None where it is a unit of another kind of source."""
        found = _UNIT.fullmatch(unit)
        return None if found is None else cls(found["topic"], int(found["partition"]), found["topic_id"])

    def __str__(self) -> str:
        return f"{self.topic}:{self.number}"


@dataclass(frozen=True)
class OffsetSlice(SourceSlice):
    """Some records of a partition.

    Attributes:
        range_no: number of the range within its batch; a range may be read in several slices.
        partition: where they lie.
        first: offset of the first one.
        last: offset after the last one. Offsets between them may have no record.
        after: the last record that was read before the slice, of which the ledger knows; None: it knows of none.
        poison: what of it is not decoded.
    """

    range_no: int
    partition: Partition
    first: int
    last: int
    after: RecordMark | None = None
    poison: Poison = ()

    @property
    def is_loaded_in_part(self) -> bool:
        """Yes: what retention has removed is lost, and what is still there is loaded."""
        return True

    def window(self, first: int, last: int) -> OffsetSlice:
        """The part of it between these offsets."""
        return replace(self, first=first, last=last, after=self.after if first == self.first else None)

    @property
    def has_one_record(self) -> bool:
        """Whether it has no more."""
        return self.last - self.first == 1


def offset_range(
    partition: Partition, first: int, last: int, size: int | None = None, seen_ns: int | None = None
) -> SourceRange:
    """Some consecutive offsets of a partition, as the ledger has them.

    Args:
        partition: where they lie.
        first, last: the first of them, and the one after the last.
        size: about how many bytes their records have.
        seen_ns: when they were seen first, in ns since 1970.
    """
    return SourceRange(partition.unit, first, last, size, seen_ns, kind="kafka")


def with_place(values: pa.Table, units: pa.ChunkedArray, offsets: pa.ChunkedArray, times: pa.ChunkedArray) -> pa.Table:
    """Values of records, with the columns that tell where each lies.

    Args:
        values: shape (n,).
        units: partitions as the ledger calls them, be they of one of several streams, shape (n,); null, or of another
            kind of source: not known.
        offsets: int64, shape (n,).
        times: when the records were written, shape (n,).
    """
    # Arrow knows the names of a pattern's groups as RE2 writes them.
    parts = pc.extract_regex(units.cast(pa.string()), _OF_ANY_STREAM)
    columns = {
        TOPIC: pc.struct_field(parts, "topic"),
        PARTITION: pc.struct_field(parts, "partition").cast(pa.int32()),
        OFFSET: offsets,
        TIMESTAMP: times,
    }
    for name, column in columns.items():
        values = values.append_column(name, column)
    return values
