"""Fields of a fixed width into Arrow: numbers, booleans, dates, timestamps, UUIDs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.relation.arrow_buffers import binary_array, boolean_array, fixed_width_array
from spark_jobs.relation.copy_decoding.column_types import ColumnType
from spark_jobs.relation.uuid_text import UUID_BYTES, UUID_CHARACTERS, uuid_characters

# PostgreSQL counts from 2000-01-01, Arrow from 1970-01-01.
_EPOCH_DAYS = 10_957
_EPOCH_MICROSECONDS = _EPOCH_DAYS * 86_400_000_000


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
