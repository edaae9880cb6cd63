"""From the bytes of a column's fields to its Arrow array: fixed widths, text, numeric."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import binary_array, boolean_array, fixed_width_array
from spark_jobs.columns.copy_decoding.column_types import ColumnType, changed_type
from spark_jobs.columns.jit import kernel
from spark_jobs.columns.uuid_text import UUID_BYTES, UUID_CHARACTERS, uuid_characters
from spark_jobs.errors import SchemaMismatchError

# PostgreSQL counts from 2000-01-01, Arrow from 1970-01-01.
_EPOCH_DAYS = 10_957
_EPOCH_MICROSECONDS = _EPOCH_DAYS * 86_400_000_000

_HEADER_BYTES = 8
_NEGATIVE = 0x4000
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF_BITS = np.uint64(32)
_DONE, _NOT_A_NUMBER, _OTHER_TYPE = 0, 1, 2


def gathered(data: NDArray[np.uint8], starts: NDArray[np.int64], sent_as: np.dtype) -> NDArray:
    """The fields that start at these places, shape (n,), as an array of their own."""
    content = data[starts[:, None] + np.arange(sent_as.itemsize)]
    return content.reshape(-1).view(sent_as)


def fixed_width_column(fields: NDArray, kind: ColumnType, valid: NDArray[np.bool_] | None) -> pa.Array:
    """One column.

    Args:
        fields: shape (n,), as sent (`kind.sent_as`); may be a view with strides.
        kind: the column's type.
        valid: bool, shape (n,), False for nulls; None where there are none.

    Returns:
        Shape (n,). The dates and timestamps infinity and -infinity become the largest and the smallest value of the
        Arrow type, which is how binary COPY has them as well.
    """
    if kind.postgres == "bool":
        return boolean_array(fields, valid)
    if kind.postgres == "uuid":
        return _uuid_column(np.ascontiguousarray(fields).view(np.uint8).reshape(-1, UUID_BYTES), kind, valid)
    values = fields.astype(fields.dtype.newbyteorder("="))
    if kind.postgres == "date":
        values = _shifted(values, _EPOCH_DAYS)
    elif kind.postgres in ("timestamp", "timestamptz"):
        values = _shifted(values, _EPOCH_MICROSECONDS)
    return fixed_width_array(kind.arrow, values, valid)


def _shifted(values: NDArray, distance: int) -> NDArray:
    """Later by `distance`, but infinity and what lies too far in the future become the largest value."""
    limits = np.iinfo(values.dtype)
    moved = np.minimum(values, limits.max - distance) + values.dtype.type(distance)
    infinite = values == limits.min
    if infinite.any():
        moved[infinite] = limits.min
    return moved


def _uuid_column(values: NDArray[np.uint8], kind: ColumnType, valid: NDArray[np.bool_] | None) -> pa.Array:
    if pa.types.is_fixed_size_binary(kind.arrow):
        return fixed_width_array(kind.arrow, np.ascontiguousarray(values), valid)
    offsets = np.arange(len(values) + 1, dtype=np.int32) * UUID_CHARACTERS
    return binary_array(offsets, uuid_characters(values).reshape(-1), valid, kind.arrow)


def text_column(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int32], valid: NDArray[np.bool_] | None
) -> pa.Array:
    """One column of text. O(bytes).

    Args:
        data: the stream, uint8.
        starts: int64, shape (n,), where each field starts.
        lengths: int32, shape (n,), how long it is.
        valid: bool, shape (n,), False for nulls; None where there are none.
    """
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(lengths if valid is None else np.maximum(lengths, 0), out=offsets[1:])
    text = np.empty(offsets[-1], np.uint8)
    _copy_fields(data, starts, offsets, text)
    return binary_array(offsets, text, valid, pa.string())


@kernel
def _copy_fields(
    data: NDArray[np.uint8], starts: NDArray[np.int64], offsets: NDArray[np.int32], text: NDArray[np.uint8]
) -> None:
    for row in range(len(starts)):
        source, target = starts[row], np.int64(offsets[row])
        for index in range(np.int64(offsets[row + 1]) - target):
            text[target + index] = data[source + index]


def numeric_column(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int32],
    kind: ColumnType,
    valid: NDArray[np.bool_] | None,
) -> pa.Array:
    """One column of numeric(precision, scale). O(digits).

    Args:
        data: the stream, uint8.
        starts: int64, shape (n,), where each field starts.
        lengths: int32, shape (n,), how long it is; -1 for null.
        kind: the column's type.
        valid: bool, shape (n,), False for nulls; None where there are none.

    Raises:
        SchemaMismatchError: a value is NaN, which no decimal of Arrow or Spark can be; or the column is not numeric.
    """
    values = np.zeros((len(starts), 2), np.uint64)
    outcome = _decode(data, starts, lengths, kind.arrow.scale, values)
    if outcome == _OTHER_TYPE:
        raise changed_type(kind)
    if outcome == _NOT_A_NUMBER:
        raise SchemaMismatchError(
            "A numeric column holds NaN, which no decimal can hold. "
            "Replace it in the relation (UPDATE), or change the column to double precision."
        )
    return fixed_width_array(kind.arrow, values, valid)


@kernel
def _two_bytes(data: NDArray[np.uint8], position: int) -> int:
    return int(data[position]) * 256 + int(data[position + 1])


@kernel
def _decode(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int32],
    scale: int,
    values: NDArray[np.uint64],
) -> int:
    lowest = -((scale + 3) // 4)  # the power of 10,000 of the last digits that count
    for row in range(len(starts)):
        if lengths[row] < 0:
            continue
        start = starts[row]
        if lengths[row] < _HEADER_BYTES:
            return _OTHER_TYPE
        digits, sign = _two_bytes(data, start), _two_bytes(data, start + 4)
        if lengths[row] != _HEADER_BYTES + 2 * digits:
            return _OTHER_TYPE
        weight = _two_bytes(data, start + 2)
        if weight >= 0x8000:
            weight -= 0x10000
        if sign not in (0, _NEGATIVE):
            return _NOT_A_NUMBER
        low, high = np.uint64(0), np.uint64(0)
        for power in range(weight, lowest - 1, -1):
            index = weight - power
            digit = _two_bytes(data, start + _HEADER_BYTES + 2 * index) if index < digits else 0
            # The digits after the point may end within a group of four: 0.5 at scale 1 is sent as 5000.
            decimals = 4 if power >= 0 else min(4, scale + 4 * (power + 1))
            factor = np.uint64(10**decimals)
            below = low & _LOW_HALF
            carry = below * factor + np.uint64(digit // 10 ** (4 - decimals))
            above = (low >> _HALF_BITS) * factor + (carry >> _HALF_BITS)
            low = (above << _HALF_BITS) | (carry & _LOW_HALF)
            high = high * factor + (above >> _HALF_BITS)
        if sign == _NEGATIVE:
            low, high = ~low + np.uint64(1), ~high + np.uint64(low == 0)
        values[row, 0], values[row, 1] = low, high
    return _DONE
