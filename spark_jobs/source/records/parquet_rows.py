"""The rows of a Parquet file as tuples: which types of a file are taken for which of a column, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.definition.ddl import StreamType
from spark_jobs.errors import UnreadableFileError
from spark_jobs.source.damage import damage_told
from spark_jobs.source.records.decoded import Decoded
from spark_jobs.source.records.typed_values import as_tuples, is_any_binary, misfit, plain
from spark_jobs.warehouse.json_text import json_objects

_BATCH_ROWS = 65_536
_BATCH_BYTES = 8 << 20
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
        problems = [f"column {column} {told}" for column, told in types.items() if told is not None]
        if problems:
            raise UnreadableFileError(f"{name} does not fit the source's schema: {'; '.join(problems)}.")

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The stored columns of the schema, some rows at a time.

        Raises:
            UnreadableFileError: the file is damaged.
        """
        with damage_told(self._name):
            file = self._open()
            yield from file.iter_batches(
                _batch_rows(file.metadata), columns=list(self._stored.values()), use_threads=False
            )

    def decode(self, batch: pa.RecordBatch) -> Decoded:
        """The tuples of rows; a value that does not fit its column costs its row only."""
        stored = {column: plain(batch.column(name)) for column, name in self._stored.items()}
        return as_tuples(stored, self._columns, batch.num_rows, {})

    def records_of_malformed(self, batch: pa.RecordBatch, decoded: Decoded) -> pa.Array:
        """For rows that could not be decoded a JSON object of their columns as they are stored; else null. (n,)."""
        count = batch.num_rows
        if decoded.reasons.null_count == count:
            return pa.nulls(count, pa.binary())
        malformed = decoded.reasons.is_valid()
        columns = {
            column: _writable(plain(batch.column(stored).filter(malformed)), self._columns[column])
            for column, stored in self._stored.items()
        }
        objects = json_objects(columns).view(pa.large_binary()).cast(pa.binary())
        return pc.replace_with_mask(pa.nulls(count, pa.binary()), malformed, objects)

    def _open(self) -> pq.ParquetFile:
        with damage_told(self._name):
            self._file.seek(0)
            # Read in small pieces: by default whole columns of a row group are in memory. Java's old timestamps of
            # 96 bits are cut to microseconds, as Spark does.
            return pq.ParquetFile(
                pa.PythonFile(self._file, "r"),
                buffer_size=_READ_BYTES,
                pre_buffer=False,
                coerce_int96_timestamp_unit="us",
            )


def _batch_rows(file: pq.FileMetaData) -> int:
    """Rows to read at once: fewer where they are large."""
    size = sum(file.row_group(number).total_byte_size for number in range(file.num_row_groups))
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES * file.num_rows // max(size, 1)))


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
