"""What the tasks of one batch need to know of several streams; pickled into them by the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from spark_jobs.definition.fates import Fate
from spark_jobs.definition.join import Join
from spark_jobs.definition.stream_tuple import EventColumns
from spark_jobs.join_state.bucket import BucketPlan
from spark_jobs.loading.outcome import HeldStream
from spark_jobs.source.slice_reading import SliceReader
from spark_jobs.warehouse.fact_table import FactTable


@dataclass(frozen=True)
class StreamPlan:
    """One of the streams.

    Attributes:
        held: how its tuples are held that are in no result.
        reader: reads slices of it.
        key: its columns that must equal the other streams'; with none, all tuples have one key.
        matched: those that must match them otherwise: none, a value, or the two ends of an interval.
    """

    held: HeldStream
    reader: SliceReader
    key: tuple[str, ...]
    matched: tuple[str, ...] = ()

    @classmethod
    def of(cls, pipeline: str, join: Join, name: str, fact: FactTable, reader: SliceReader) -> StreamPlan:
        """A stream of a pipeline whose joined tuples become facts.

        Args:
            pipeline: its name.
            join: how the streams are joined.
            name: the stream's.
            fact: the fact table.
            reader: of the stream.
        """
        event = EventColumns.of(pipeline, reader.source)
        return cls(HeldStream.of(name, event, fact), reader, join.equal(name), join.matched(name))


@dataclass(frozen=True)
class JoinPlan:
    """How one batch is joined with the state.

    Attributes:
        streams: of the pipeline, in its order.
        bucket: the join of one bucket.
        joined: columns of the joined tuples, but for `_joined_id`.
        identified: whether they have a `_joined_id`.
        folder: where the state is; each bucket has a folder in it.
        buckets: how many there are.
        version: of the state that the batch starts from; 0: it is empty.
        batch_no: the version that it makes.
        watermarks: int64 microseconds since 1970, of each stream: tuples that start before are late.
        keep_from: versions before this one are not needed any more.
        reasons: for each stream, why its tuples have come to a fate, in words for people.
        join: the part of the definition, which says what becomes of those that expire.
    """

    streams: tuple[StreamPlan, ...]
    bucket: BucketPlan
    joined: pa.Schema
    identified: bool
    folder: Path
    buckets: int
    version: int
    batch_no: int
    watermarks: tuple[int, ...]
    keep_from: int
    reasons: tuple[Mapping[Fate, str], ...]
    join: Join
