"""The rows of a Parquet file as tuples: which types of a file are taken for which of a column, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.columns.json_text import json_objects
from spark_jobs.definition.ddl import StreamType
from spark_jobs.errors import UnreadableFileError
from spark_jobs.source.files.damage import damage_told
from spark_jobs.source.records.decoded import KEPT_OF_TOO_LONG, LONGEST_RECORD, Decoded, cut_record
from spark_jobs.source.records.long_values import beginnings, holds_bytes, lengths, too_long, without
from spark_jobs.source.records.parquet_pages import PIECE_BYTES, planned_reading
from spark_jobs.source.records.typed_values import as_tuples, is_any_binary, misfit, plain

_READ_BYTES = 1 << 20


class ParquetRows:
    """A Parquet file with the source's columns.

    Args:
        file: the file.
        columns: the source's schema.
        name: of the file, for messages.

    Raises:
        UnreadableFileError: it is not a Parquet file, or a column's type can't be taken safely.
    """

    def __init__(self, file: BinaryIO, columns: Mapping[str, StreamType], name: str) -> None:
        self._file = file
        self._columns = columns
        self._name = name
        schema = self._open().schema_arrow
        self._stored = _stored_names(schema.names, columns, name)
        types = {column: misfit(schema.field(name).type, columns[column]) for column, name in self._stored.items()}
        self._texts = [name for name in self._stored.values() if holds_bytes(schema.field(name).type)]
        problems = [f"column {column} {told}" for column, told in types.items() if told is not None]
        if problems:
            raise UnreadableFileError(f"{name} does not fit the source's schema: {'; '.join(problems)}.")

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The stored columns of the schema, some rows at a time: some MB of them, or one row.

        Raises:
            UnreadableFileError: the file is damaged, or asks for too much memory to read one row.
        """
        with damage_told(self._name):
            stored = list(self._stored.values())
            reading = planned_reading(self._file, self._open().metadata, stored, self._texts, self._name)
            file = self._open(reading.as_dictionary)
            for batch in file.iter_batches(reading.rows, columns=stored, use_threads=False):
                yield from _pieces(batch)

    def decode(self, batch: pa.RecordBatch) -> Decoded:
        """The tuples of rows; a value that does not fit its column, or is too long, costs its row only."""
        stored: dict[str, pa.Array] = {}
        faults: dict[int, str] = {}
        for column, name in self._stored.items():
            values = batch.column(name)
            unfit = too_long(values)
            for row, told in unfit.items():
                faults.setdefault(row, f"malformed: {column}: too long: {told}")
            stored[column] = plain(without(values, unfit))
        return as_tuples(stored, self._columns, batch.num_rows, faults)

    def records_of_malformed(self, batch: pa.RecordBatch, decoded: Decoded) -> pa.Array:
        """For rows that could not be decoded a JSON object of their columns as they are stored; else null. (n,).

        Where a value is too long the object is cut, as too long records of other formats are.
        """
        count = batch.num_rows
        if decoded.reasons.null_count == count:
            return pa.nulls(count, pa.binary())
        malformed = decoded.reasons.is_valid()
        rows = batch.filter(malformed)
        columns: dict[str, pa.Array] = {}
        cut: dict[int, str] = {}
        for column, name in self._stored.items():
            values = rows.column(name)
            unfit = too_long(values)
            cut = unfit | cut
            columns[column] = _writable(beginnings(values, unfit), self._columns[column])
        objects = json_objects(columns).view(pa.large_binary()).cast(pa.binary())
        if cut:
            texts = objects.to_pylist()
            for row, told in cut.items():
                texts[row] = cut_record(texts[row][:KEPT_OF_TOO_LONG], told)
            objects = pa.array(texts, pa.binary())
        return pc.replace_with_mask(pa.nulls(count, pa.binary()), malformed, objects)

    def _open(self, as_dictionary: Sequence[str] = ()) -> pq.ParquetFile:
        with damage_told(self._name):
            self._file.seek(0)
            # Read in small pieces: by default whole columns of a row group are in memory. Java's old timestamps of
            # 96 bits are cut to microseconds, as Spark does.
            return pq.ParquetFile(
                pa.PythonFile(self._file, "r"),
                buffer_size=_READ_BYTES,
                pre_buffer=False,
                read_dictionary=list(as_dictionary),
                coerce_int96_timestamp_unit="us",
            )


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut rows so that each piece has some MB once its values stand in each of its rows; or is one row."""
    places = [column for column in batch.columns if pa.types.is_dictionary(column.type)]
    if not places and batch.nbytes <= 2 * PIECE_BYTES:
        yield batch
        return
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        if holds_bytes(column.type):
            of_column = lengths(column)
            sizes += np.where(of_column > LONGEST_RECORD, KEPT_OF_TOO_LONG, of_column)
    pieces = np.cumsum(sizes) // PIECE_BYTES
    firsts = np.flatnonzero(np.diff(pieces, prepend=-1)).tolist()
    for first, last in pairwise([*firsts, batch.num_rows]):
        yield batch.slice(first, last - first)


def _stored_names(stored: list[str], columns: Mapping[str, StreamType], file: str) -> dict[str, str]:
    """For each column that the file has, the file's name of it: this one, or else one that differs in case only.

    Raises:
        UnreadableFileError: there are several.
    """
    found = {}
    for column in columns:
        names = [name for name in stored if name == column] or [
            name for name in stored if name.lower() == column.lower()
        ]
        if len(names) > 1:
            raise UnreadableFileError(f"{file} has several columns for {column}: {', '.join(names)}.")
        if names:
            found[column] = names[0]
    return found


def _writable(values: pa.Array, column: StreamType) -> pa.Array:
    """Values of a type that JSON text is made from; texts need not be UTF-8."""
    kind = values.type
    if column.name == "string":
        return values.cast(pa.binary()).view(pa.string())
    if pa.types.is_timestamp(kind):
        texts = pc.cast(values.view(pa.timestamp(kind.unit)), pa.string())
        return pc.binary_join_element_wise(pc.replace_substring(texts, " ", "T"), "Z", "")
    if is_any_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return values.cast(pa.binary())
    if pa.types.is_floating(kind):
        return values.cast(pa.float64())
    if pa.types.is_null(kind):
        return values.cast(pa.string())
    return values
