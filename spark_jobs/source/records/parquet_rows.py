"""The rows of a Parquet file as tuples: which types of a file are taken for which of a column, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.definition.ddl import StreamType
from spark_jobs.errors import UnreadableFileError
from spark_jobs.source.damage import damage_told
from spark_jobs.source.records.decoded import Decoded, arrow_schema, complaint
from spark_jobs.source.records.texts import Converted, convert_or_fault, within
from spark_jobs.warehouse.copy_encoding.column_encoder import shown
from spark_jobs.warehouse.json_text import json_objects

_BATCH_ROWS = 65_536
_BATCH_BYTES = 8 << 20
_READ_BYTES = 1 << 20
_ANY_INTEGER = pa.decimal128(20, 0)


def _is_float(*bits: int) -> Callable[[pa.DataType], bool]:
    return lambda kind: pa.types.is_floating(kind) and kind.bit_width in bits


def _is_integer_up_to(bits: int) -> Callable[[pa.DataType], bool]:
    """Signed and unsigned ones that a float of that many digits holds exactly."""
    return lambda kind: pa.types.is_integer(kind) and kind.bit_width <= bits


def _is_any_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_any_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)


_Test = Callable[[pa.DataType], bool]
_SAFE: dict[str, tuple[str, tuple[_Test, ...]]] = {
    "bigint": ("an integer", (pa.types.is_integer,)),
    "int": ("an integer", (pa.types.is_integer,)),
    "smallint": ("an integer", (pa.types.is_integer,)),
    "tinyint": ("an integer", (pa.types.is_integer,)),
    "float": ("float, or an integer of 16 bits", (_is_float(16, 32), _is_integer_up_to(16))),
    "double": ("double, float, or an integer of 32 bits", (_is_float(16, 32, 64), _is_integer_up_to(32))),
    "decimal": ("decimal, or an integer", (pa.types.is_decimal, pa.types.is_integer)),
    "boolean": ("boolean", (pa.types.is_boolean,)),
    "string": ("string, or binary that is UTF-8", (_is_any_text, _is_any_binary)),
    "date": ("date", (pa.types.is_date32,)),
    "timestamp": ("timestamp", (pa.types.is_timestamp,)),
    "binary": ("binary", (_is_any_binary, pa.types.is_fixed_size_binary)),
}


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
        problems = [
            f"column {column} is of type {schema.field(stored).type}, and {columns[column]} takes "
            f"{_SAFE[columns[column].name][0]}"
            for column, stored in self._stored.items()
            if not _is_safe(schema.field(stored).type, columns[column])
        ]
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
        count = batch.num_rows
        reasons: list[str | None] = [None] * count
        arrays = []
        for name, kind in self._columns.items():
            if name not in self._stored:
                arrays.append(pa.nulls(count, kind.arrow()))
                continue
            stored = _plain(batch.column(self._stored[name]))
            values, faults = _fitted(stored, kind)
            for number in [] if faults is None else faults.nonzero()[0].tolist():
                reasons[number] = reasons[number] or complaint(name, _shown(stored[number]), kind)
            arrays.append(values)
        told = pa.array(reasons, pa.string())
        if told.null_count < count:
            arrays = [pc.if_else(told.is_valid(), None, values) for values in arrays]
        return Decoded(pa.Table.from_arrays(arrays, schema=arrow_schema(self._columns)), told)

    def records_of_malformed(self, batch: pa.RecordBatch, decoded: Decoded) -> pa.Array:
        """For rows that could not be decoded a JSON object of their columns as they are stored; else null. (n,)."""
        count = batch.num_rows
        if decoded.reasons.null_count == count:
            return pa.nulls(count, pa.binary())
        malformed = decoded.reasons.is_valid()
        columns = {
            column: _writable(_plain(batch.column(stored).filter(malformed)), self._columns[column])
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


def _is_safe(stored: pa.DataType, kind: StreamType) -> bool:
    if pa.types.is_dictionary(stored):
        stored = stored.value_type
    return pa.types.is_null(stored) or any(test(stored) for test in _SAFE[kind.name][1])


def _plain(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _fitted(values: pa.Array, kind: StreamType) -> Converted:
    """Values as the column's type; those that it does not hold exactly are at fault."""
    arrow = kind.arrow()
    if kind.name == "string":
        # What a file calls a string need not be UTF-8.
        return convert_or_fault(values.cast(pa.binary()), lambda some: pc.cast(some, arrow))
    if pa.types.is_floating(values.type):
        return Converted(values.cast(arrow), None)
    if pa.types.is_integer(values.type) and kind.name == "decimal":
        values = values.cast(_ANY_INTEGER)
    return within(convert_or_fault(values, lambda some: pc.cast(some, arrow)), kind)


def _writable(values: pa.Array, column: StreamType) -> pa.Array:
    """Values of a type that JSON text is made from; texts need not be UTF-8."""
    kind = values.type
    if column.name == "string":
        return values.cast(pa.binary()).view(pa.string())
    if pa.types.is_timestamp(kind):
        texts = pc.cast(values.view(pa.timestamp(kind.unit)), pa.string())
        return pc.binary_join_element_wise(pc.replace_substring(texts, " ", "T"), "Z", "")
    if _is_any_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return values.cast(pa.binary())
    if pa.types.is_floating(kind):
        return values.cast(pa.float64())
    if pa.types.is_null(kind):
        return values.cast(pa.string())
    return values


def _shown(value: pa.Scalar) -> str:
    try:
        return shown(value.as_py())
    except (ValueError, OverflowError):  # a time that Python does not know, or text that is not UTF-8
        if pa.types.is_timestamp(value.type) or pa.types.is_date32(value.type):
            return str(value.cast(pa.int64() if pa.types.is_timestamp(value.type) else pa.int32()))
        return shown(value.as_buffer().to_pybytes())
