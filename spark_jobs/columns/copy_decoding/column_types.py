"""The PostgreSQL column types that Freshet reads, and the Arrow type that each becomes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_jobs.errors import SchemaMismatchError

_NUMERIC_HEADER = 4  # bytes of a typmod that are not precision and scale
_WIDEST_DECIMAL = 38


@dataclass(frozen=True)
class ColumnType:
    """One column's type on both sides.

    Attributes:
        postgres: name in pg_type.
        arrow: type of the decoded array.
        sent_as: numpy type of the field in binary COPY, big-endian; None where its width varies.
    """

    postgres: str
    arrow: pa.DataType
    sent_as: np.dtype | None


_FIXED_WIDTH = {
    "bool": (pa.bool_(), "u1"),
    "int2": (pa.int16(), ">i2"),
    "int4": (pa.int32(), ">i4"),
    "int8": (pa.int64(), ">i8"),
    "float4": (pa.float32(), ">f4"),
    "float8": (pa.float64(), ">f8"),
    "date": (pa.date32(), ">i4"),
    "timestamp": (pa.timestamp("us"), ">i8"),
    "timestamptz": (pa.timestamp("us", tz="UTC"), ">i8"),
    "uuid": (pa.string(), "V16"),
}
_TEXT = ("text", "varchar", "bpchar")

READABLE_TYPES = (*_FIXED_WIDTH, "numeric(precision, scale)", "text", "varchar", "char")
"""What can be read, in words."""

UUID_KEY = ColumnType("uuid", pa.binary(16), np.dtype("V16"))
"""A UUID that is joined by: left as its 16 bytes."""


def column_type(name: str, modifier: int) -> ColumnType | None:
    """The type of a column that is fetched.

    Args:
        name: its type's name in pg_type.
        modifier: its atttypmod; -1 where it has none.

    Returns:
        None for a type that can't be read: not one of `READABLE_TYPES`, or numeric without a precision, of which
        Arrow and Spark could not hold all values.
    """
    if name in _FIXED_WIDTH:
        arrow, sent_as = _FIXED_WIDTH[name]
        return ColumnType(name, arrow, np.dtype(sent_as))
    if name in _TEXT:
        return ColumnType(name, pa.string(), None)
    if name == "numeric" and modifier >= _NUMERIC_HEADER:
        precision, scale = _precision_and_scale(modifier)
        if 0 <= scale <= precision <= _WIDEST_DECIMAL:
            return ColumnType(name, pa.decimal128(precision, scale), None)
    return None


def changed_type(kind: ColumnType) -> SchemaMismatchError:
    """The error to raise where a column does not send what its type sends."""
    return SchemaMismatchError(
        f"A column that was {kind.postgres} has another type now. Restart the pipeline to read its new definition."
    )


def _precision_and_scale(modifier: int) -> tuple[int, int]:
    packed = modifier - _NUMERIC_HEADER
    scale = packed & 0x7FF
    return packed >> 16, scale - 0x800 if scale >= 0x400 else scale  # the scale is signed, of 11 bits
