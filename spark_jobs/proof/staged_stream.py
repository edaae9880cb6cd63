"""One of several correlated streams: its landed events in a temporary table, with what their join needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from numpy.typing import NDArray
from psycopg2 import extensions, sql

from spark_jobs.columns.arrow_buffers import plain_array
from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.correlation import COMPLETED_AT, STREAM_SEPARATOR, event_ids, qualified
from spark_jobs.definition.ddl import StreamType
from spark_jobs.loading.payload import tuple_objects
from spark_jobs.proof.held import HeldTuples, Int64Array, codes_of
from spark_jobs.proof.landed_records import EventIds, LandedRecords
from spark_jobs.proof.staged_events import StagedEvents, Staging, loaded_columns, needed_columns
from spark_jobs.proof.stored_tuples import StoredTuples

# Staged beside the stream's columns, whose names hold no colon: when the event happened, int64 microseconds since 1970;
# and the code of its columns as an object, null where no joined tuple is held.
START = "freshet: start"
CODE = "freshet: code"
_BIGINT = StreamType("bigint")


class StagedStream:
    """A stream in the proof of a pipeline that joins several.

    Args:
        cursor: in the proof's transaction.
        definition: the pipeline.
        number: the stream's, from 0.
        name: the stream's.

    Attributes:
        number, name: as given.
        source: where its events come from.
        on: its columns that must match the other streams'.
        id_positions: of the first and the last column of its event id among those of all streams, from 1.
        prefix: how its files and held tuples are called in the warehouse.
        stored: its held tuples, by the ids of its events.
        staging: its landed events.
    """

    def __init__(self, cursor: extensions.cursor, definition: PipelineDefinition, number: int, name: str) -> None:
        assert definition.streams is not None
        assert definition.correlate is not None
        self.number = number
        self.name = name
        self.source = definition.streams[name]
        self.on = definition.correlate.on[name]
        self._match = definition.correlate.match
        first = event_ids(definition.streams).index(qualified(name, self.source.event_id[0])) + 1
        self.id_positions = (first, first + len(self.source.event_id) - 1)
        self.prefix = name + STREAM_SEPARATOR
        self.stored = StoredTuples.of_stream(cursor, definition.name, number, self.prefix)
        self._held = HeldTuples(cursor, self.stored, self.source)
        needed, loaded = needed_columns(definition), loaded_columns(definition)
        own = {*self.on, *self.source.event_id, self.source.event_time}
        own |= {column for told_by, column in definition.correlate.punctuation_columns if told_by == name}
        columns = {
            column: kind
            for column, kind in self.source.columns.items()
            if self.named(column) in needed or column in own
        }
        self.staging = Staging(
            cursor,
            f"landed_{number}",
            {**columns, START: _BIGINT, CODE: _BIGINT},
            [column for column in self.source.columns if self.named(column) in loaded],
        )

    @property
    def landed(self) -> sql.Identifier:
        """SQL name of the table of its landed events."""
        return self.staging.table

    def table(self, name: str) -> sql.Identifier:
        """SQL name of another temporary table of this stream's."""
        return sql.Identifier("pg_temp", f"{name}_{self.number}")

    def named(self, column: str) -> str:
        """What a column is called in joined tuples."""
        return qualified(self.name, column)

    def column(self, name: str) -> sql.Composable:
        """SQL of a staged column's name."""
        return sql.Identifier(self.staging.column(name).name)

    @property
    def can_match(self) -> sql.Composable:
        """SQL: the event of `landed` can be joined: its time is known, and so is its key, which is not empty."""
        needed = [sql.SQL("landed.{} IS NOT NULL").format(self.column(name)) for name in (START, *self.on)]
        if self._match == "overlap":
            needed.append(sql.SQL("landed.{} < landed.{}").format(*map(self.column, self.on[-2:])))
        return sql.SQL("({})").format(sql.SQL(" AND ").join(needed))

    @property
    def no_id(self) -> str:
        """What stands in the id of a joined tuple that has no part of this stream."""
        return ",".join(["null"] * len(self.source.event_id))

    @property
    def no_code(self) -> int:
        """The code of its columns where a joined tuple has no part of this stream."""
        nulls = {self.named(name): pa.nulls(1, kind.arrow()) for name, kind in self.source.columns.items()}
        return int(self.object_codes(pa.table(nulls))[0])

    def ids(self, types: Mapping[str, str], *, coded: bool) -> StreamIds:
        """Gives its records their ids.

        Args:
            types: column of the joined tuples -> PostgreSQL's name of its type in the fact table.
            coded: whether joined tuples are held: then their payloads are compared.
        """
        own = {column: types[self.named(column)] for column in self.source.event_id}
        return StreamIds(EventIds(self.source, own, self._held), self, coded=coded)

    def object_codes(self, joined: pa.Table) -> Int64Array:
        """The codes of this stream's columns of joined tuples, as objects; int64, shape (n,)."""
        return codes_of(tuple_objects(joined, tuple(map(self.named, self.source.columns))))


class StreamIds:
    """Gives a stream's records their ids, and what they are joined by.

    Args:
        ids: gives the ids.
        stream: the stream.
        coded: whether the codes of their columns are needed.
    """

    def __init__(self, ids: EventIds, stream: StagedStream, *, coded: bool) -> None:
        self._ids = ids
        self._stream = stream
        self._coded = coded

    def identify(self, landed: LandedRecords) -> StagedEvents:
        """Records as they are staged. O(n)."""
        return self._with_parts(self._ids.identify(landed))

    def unreadable(self, path: Path) -> StagedEvents | None:
        """A file that can't be read, as one record, where the warehouse may know it as that."""
        rejected = self._ids.unreadable(path)
        return None if rejected is None else self._with_parts(rejected)

    def texts(self, tuples: pa.Table) -> pa.Array:
        """The texts of the event ids of the stream's tuples, shape (n,)."""
        return self._ids.texts(tuples)

    def _with_parts(self, events: StagedEvents) -> StagedEvents:
        values = events.values
        starts = microseconds(values, self._stream.source.event_time)
        codes = pa.nulls(values.num_rows, pa.int64())
        if self._coded:
            joined = values.rename_columns([self._stream.named(column) for column in values.column_names])
            codes = pa.array(self._stream.object_codes(joined))
        return replace(events, values=values.append_column(START, starts).append_column(CODE, codes))


def joined_codes(joined: pa.Table, streams: list[StagedStream]) -> Int64Array:
    """The codes of joined tuples by the values of their streams' columns, and of their time; int64, shape (n,)."""
    codes: NDArray = microseconds(joined, COMPLETED_AT).fill_null(0).to_numpy()
    for stream in streams:
        codes = codes ^ stream.object_codes(joined)
    return codes


def microseconds(tuples: pa.Table, column: str) -> pa.Array:
    """A timestamp as microseconds since 1970, int64, shape (n,)."""
    times = plain_array(tuples[column])
    return times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
