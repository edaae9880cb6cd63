"""Reads the events of landed files, file by file, into tables of bounded size, without Spark."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.definition import Source
from spark_jobs.definition.ddl import StreamType
from spark_jobs.proof.csv_records import CsvFormat, csv_events
from spark_jobs.proof.json_records import Event, json_events

BATCH_EVENTS = 65_536
_READ_BYTES = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class UnreadableFileError(Exception):
    """A landed file can't be read at all."""


class LandedEvents(NamedTuple):
    """Some events of one file.

    Attributes:
        values: the columns of the source's schema, shape (n,), typed as in the DDL. Text is not checked to be UTF-8.
        readable: bool, shape (n,): whether all of the record could be read.
        raw_hashes: SHA-256 of the raw record in hexadecimal, shape (n,); None for parquet, which has no raw records.
    """

    values: pa.Table
    readable: pa.BooleanArray
    raw_hashes: list[str] | None


def read_events(path: Path, source: Source) -> Iterator[LandedEvents]:
    """The events of one landed file, at most `BATCH_EVENTS` at a time.

    Raises:
        UnreadableFileError: the file is damaged, or its columns don't fit the schema; also after some events.
    """
    try:
        yield from _read_parquet(path, source.columns) if source.format == "parquet" else _read_lines(path, source)
    except (OSError, EOFError, pa.ArrowException) as error:
        raise UnreadableFileError(str(error).splitlines()[0] if str(error) else type(error).__name__) from error


def unreadable_file(path: Path, source: Source) -> LandedEvents:
    """A file that can't be read counts as one record that can't be read; its path stands for its bytes."""
    values = pa.table({name: pa.nulls(1, kind.arrow()) for name, kind in source.columns.items()})
    return LandedEvents(values, pa.array([False]), [hashlib.sha256(str(path).encode()).hexdigest()])


def _read_parquet(path: Path, columns: Mapping[str, StreamType]) -> Iterator[LandedEvents]:
    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        # A column that the file does not have is null, and case does not matter, both as in Spark.
        exact = file.schema_arrow.names
        folded = {stored.lower(): stored for stored in exact}
        stored = {name: name if name in exact else folded.get(name.lower()) for name in columns}
        wanted = [name for name in stored.values() if name is not None]
        for batch in file.iter_batches(BATCH_EVENTS, columns=wanted):
            # A timestamp without a zone is taken as UTC.
            values = {
                name: pa.nulls(len(batch), kind.arrow())
                if (source := stored[name]) is None
                else batch.column(source).cast(kind.arrow())
                for name, kind in columns.items()
            }
            yield LandedEvents(pa.table(values), pa.array(np.ones(len(batch), bool)), None)


def _read_lines(path: Path, source: Source) -> Iterator[LandedEvents]:
    events_of = json_events
    columns = source.columns
    header = False
    if source.format == "csv":
        layout = CsvFormat.from_options(source.options)
        events_of, header = partial(csv_events, layout=layout), layout.header
    events: list[Event] = []
    hashes: list[str] = []
    for line in _lines(path):
        found = list(events_of(line, columns))
        if found and header:  # the first line that is not blank
            header = False
            continue
        events += found
        hashes += [hashlib.sha256(line).hexdigest()] * len(found)
        if len(events) >= BATCH_EVENTS:
            yield _table(events, hashes, columns)
            events, hashes = [], []
    yield _table(events, hashes, columns)


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file as Hadoop cuts it: at \\n, \\r\\n and \\r, and unpacked where its name says so."""
    with io.BufferedReader(pa.input_stream(str(path)), _READ_BYTES) as stream:
        if stream.peek(len(_BYTE_ORDER_MARK)).startswith(_BYTE_ORDER_MARK):
            stream.read(len(_BYTE_ORDER_MARK))
        for chunk in stream:
            yield from chunk.splitlines()


def _table(events: Sequence[Event], hashes: list[str], columns: Mapping[str, StreamType]) -> LandedEvents:
    transposed: list[tuple[Any, ...]] = list(zip(*(event.values for event in events), strict=True))
    arrays = [
        _array(values, kind) for values, kind in zip(transposed or [()] * len(columns), columns.values(), strict=True)
    ]
    readable = pa.array([event.readable for event in events], pa.bool_())
    return LandedEvents(pa.table(arrays, names=list(columns)), readable, hashes)


def _array(values: Sequence[Any], kind: StreamType) -> pa.Array:
    match kind.name:
        case "date":
            return pa.array(values, pa.int32()).cast(pa.date32())
        case "timestamp":
            return pa.array(values, pa.int64()).cast(kind.arrow())
        case "string":
            return pa.array(values, pa.binary()).view(pa.string())  # CSV gives bytes, which need not be UTF-8
        case _:
            return pa.array(values, kind.arrow())
