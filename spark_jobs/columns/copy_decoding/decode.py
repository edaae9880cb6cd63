"""Decodes the result of COPY ... TO STDOUT (FORMAT binary).

The stream: a header; then per tuple an int16 count of fields and per field an int32 length (-1: null) and its
bytes; then -1 for the count. All big-endian.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.copy_decoding.column_arrays import fixed_width_column, gathered, numeric_column, text_column
from spark_jobs.columns.copy_decoding.column_types import ColumnType, changed_type
from spark_jobs.columns.jit import kernel, read_only
from spark_jobs.errors import SchemaMismatchError

_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_EXTENSION_LENGTH_AT = len(_SIGNATURE) + 4
_HEADER_BYTES = _EXTENSION_LENGTH_AT + 4
_TRAILER_BYTES = 2
_MALFORMED = -1


def decode_copy(content: bytes | memoryview, types: Sequence[ColumnType]) -> list[pa.Array]:
    """Decode a whole stream.

    Columns of fixed width without nulls are taken as they lie, with their bytes swapped; anything else is found field
    by field first.

    Args:
        content: the stream, from its signature to its trailer.
        types: the type of each of its c columns.

    Returns:
        c arrays, each of shape (n,). O(bytes).

    Raises:
        SchemaMismatchError: the stream is not of these columns, or holds a value that Arrow can't.
    """
    data = read_only(np.frombuffer(content, np.uint8))
    fixed = [kind.sent_as for kind in types if kind.sent_as is not None]
    if len(fixed) == len(types):
        records = as_records(data, fixed)
        if records is not None:
            return [fixed_width_column(records[f"v{i}"], kind, None) for i, kind in enumerate(types)]
    positions = locate_fields(data, len(types))
    return [_column(data, positions, i, kind) for i, kind in enumerate(types)]


def _column(data: NDArray[np.uint8], positions: FieldPositions, index: int, kind: ColumnType) -> pa.Array:
    starts, lengths = positions.starts[index], positions.lengths[index]
    present = lengths >= 0
    valid = None if present.all() else present
    if kind.postgres == "numeric":
        return numeric_column(data, starts, lengths, kind, valid)
    if kind.sent_as is None:
        return text_column(data, starts, lengths, valid)
    if (lengths[present] != kind.sent_as.itemsize).any():
        raise changed_type(kind)
    if valid is not None:
        starts = np.where(present, starts, 0)  # any readable place will do: the value is not used
    return fixed_width_column(gathered(data, starts, kind.sent_as), kind, valid)


class FieldPositions(NamedTuple):
    """Fields of n tuples of c columns.

    Attributes:
        starts: int64, shape (c, n): where the field's bytes start.
        lengths: int32, shape (c, n): how many they are; -1 for null.
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int32]


def tuples_start(data: NDArray[np.uint8]) -> int:
    """Where the first tuple starts, in a whole stream, uint8."""
    if data[: len(_SIGNATURE)].tobytes() != _SIGNATURE:
        raise SchemaMismatchError("PostgreSQL sent something that is not its binary COPY format.")
    extension = int.from_bytes(data[_EXTENSION_LENGTH_AT:_HEADER_BYTES].tobytes(), "big")
    return _HEADER_BYTES + extension


def as_records(data: NDArray[np.uint8], fields: Sequence[np.dtype]) -> NDArray[np.void] | None:
    """The stream as an array of records, where all tuples have the same size and none has a null; else None.

    Args:
        data: the whole stream, uint8.
        fields: how each column is sent.

    Returns:
        Shape (n,), with fields v0, v1 and so on; a view of the stream. O(n).
    """
    columns = range(len(fields))
    layout = [
        ("count", ">i2"),
        *((name, kind) for i in columns for name, kind in ((f"l{i}", ">i4"), (f"v{i}", fields[i]))),
    ]
    record = np.dtype(layout)
    start = tuples_start(data)
    count, rest = divmod(len(data) - start - _TRAILER_BYTES, record.itemsize)
    if rest:
        return None
    records = np.frombuffer(data, record, count, start)
    same = (records["count"] == len(fields)).all()
    return records if same and all((records[f"l{i}"] == fields[i].itemsize).all() for i in columns) else None


def locate_fields(data: NDArray[np.uint8], columns: int) -> FieldPositions:
    """Find all fields of a whole stream, uint8. O(fields), two passes."""
    start = tuples_start(data)
    count = _count_tuples(data, start, columns)
    if count == _MALFORMED:
        raise SchemaMismatchError(f"PostgreSQL sent tuples that don't have the {columns} columns that were asked for.")
    positions = FieldPositions(np.empty((columns, count), np.int64), np.empty((columns, count), np.int32))
    _locate(data, start, positions.starts, positions.lengths)
    return positions


def complete_tuples(data: NDArray[np.uint8]) -> int:
    """Where the last tuple ends that has come in whole, of a stream without its header, uint8. O(fields)."""
    return int(_end_of_tuples(data))


@kernel
def _integer(data: NDArray[np.uint8], position: int, width: int) -> int:
    value = 0
    for index in range(width):
        value = value * 256 + int(data[position + index])
    half = 1 << (8 * width - 1)
    return value - 2 * half if value >= half else value


@kernel
def _count_tuples(data: NDArray[np.uint8], start: int, columns: int) -> int:
    position, count = start, 0
    while position + 2 <= len(data):
        fields = _integer(data, position, 2)
        if fields == -1:
            return count
        if fields != columns:
            return _MALFORMED
        position += 2
        for _ in range(columns):
            if position + 4 > len(data):
                return _MALFORMED
            position += 4 + max(_integer(data, position, 4), 0)
        count += 1
    return _MALFORMED


@kernel
def _end_of_tuples(data: NDArray[np.uint8]) -> int:
    position, end = 0, 0
    while position + 2 <= len(data):
        fields = _integer(data, position, 2)
        position += 2
        for _ in range(fields):
            if position + 4 > len(data):
                return end
            position += 4 + max(_integer(data, position, 4), 0)
        if fields < 0 or position > len(data):
            return end
        end = position
    return end


@kernel
def _locate(data: NDArray[np.uint8], start: int, starts: NDArray[np.int64], lengths: NDArray[np.int32]) -> None:
    position = start
    for row in range(starts.shape[1]):
        position += 2
        for column in range(starts.shape[0]):
            length = _integer(data, position, 4)
            position += 4
            starts[column, row] = position
            lengths[column, row] = length
            position += max(length, 0)
