"""Kinds of key columns, and their values in the form that keys are compared in."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import binary_parts, single_array, validity
from spark_jobs.columns.uuid_text import UUID_BYTES, format_uuids, parse_uuids

KeyValues: TypeAlias = NDArray[Any] | pa.BinaryArray
"""Values of one key column: int64 (n,) for numbers and dates (days since 1970), uint8 (n, 16) for UUIDs, binary (n,)
for text as UTF-8. Where a value is not valid it is zero or empty."""

# The days that PostgreSQL knows: 4714-11-24 B.C. to 5874897-12-31.
_FIRST_DAY, _LAST_DAY = -2_440_588, 2_145_042_905
INFINITE_FUTURE, INFINITE_PAST = 2**31 - 1, -(2**31)
"""Days that stand for the dates 'infinity' and '-infinity', as `copy_decoding` reads them."""


class KeyKind(Enum):
    """How the values of a key column compare. The value is the PostgreSQL type of a parameter of this kind."""

    INTEGER = "bigint"
    DATE = "date"
    TEXT = "text"
    PADDED_TEXT = "bpchar"  # char(n): blanks at the end do not count
    UUID = "uuid"

    @property
    def is_number(self) -> bool:
        """Whether a key of just this column is its own int64 code."""
        return self in (KeyKind.INTEGER, KeyKind.DATE)

    @property
    def is_text(self) -> bool:
        """Whether the order of the column depends on a collation."""
        return self in (KeyKind.TEXT, KeyKind.PADDED_TEXT)

    def accepts(self, stream_type: pa.DataType) -> bool:
        """Whether a stream column of this type can be joined with the relation's column."""
        if self is KeyKind.INTEGER:
            return pa.types.is_signed_integer(stream_type)
        if self is KeyKind.DATE:
            return pa.types.is_date32(stream_type)
        return pa.types.is_string(stream_type) or pa.types.is_large_string(stream_type)

    @property
    def stream_types(self) -> str:
        """The types of stream columns that fit, in words."""
        if self is KeyKind.INTEGER:
            return "an integer (bigint, int, smallint, tinyint)"
        return "date" if self is KeyKind.DATE else "string"

    def in_stream(self, values: pa.Array, stream_type: pa.DataType) -> pa.Array:
        """Values of a column of R as a stream column has them, shape (n,); null where its type has no such value.

        Args:
            values: as a read of R gives them, shape (n,).
            stream_type: one that the kind accepts.
        """
        if self is KeyKind.UUID:
            texts = pa.array(format_uuids(key_values(values, self)[0]), stream_type)
            return pc.if_else(values.is_valid(), texts, pa.scalar(None, stream_type))
        if self is KeyKind.INTEGER:
            narrowed = values.cast(stream_type, safe=False)
            same = pc.equal(narrowed.cast(values.type, safe=False), values)
            return pc.if_else(same, narrowed, pa.scalar(None, stream_type))
        return values.cast(stream_type)


KEY_KINDS = {
    "int2": KeyKind.INTEGER,
    "int4": KeyKind.INTEGER,
    "int8": KeyKind.INTEGER,
    "date": KeyKind.DATE,
    "text": KeyKind.TEXT,
    "varchar": KeyKind.TEXT,
    "bpchar": KeyKind.PADDED_TEXT,
    "uuid": KeyKind.UUID,
}
"""Key kind of each PostgreSQL type that a join key may have, by its name in pg_type."""


def key_values(column: pa.Array | pa.ChunkedArray, kind: KeyKind) -> tuple[KeyValues, NDArray[np.bool_]]:
    """Bring a column of a stream or of R into the form in which both compare.

    Args:
        column: shape (n,), of a type that the kind accepts; UUIDs also as 16 bytes each.
        kind: the kind of the key column of R.

    Returns:
        The values, and bool (n,): where there is one that R could hold. Null is not; neither is text that is not
        UTF-8 or has a NUL byte, no UUID's text, and a date that PostgreSQL does not know.
    """
    array = single_array(column)
    if kind is KeyKind.UUID:
        return _uuids(array)
    if kind.is_text:
        return _texts(array, kind)
    valid = validity(array)
    if kind is KeyKind.DATE:
        days = _without_nulls(array.view(pa.int32()), 0).to_numpy().astype(np.int64)
        infinite = (days == INFINITE_FUTURE) | (days == INFINITE_PAST)
        return days, valid & (infinite | ((days >= _FIRST_DAY) & (days <= _LAST_DAY)))
    return _without_nulls(array, 0).to_numpy().astype(np.int64, copy=False), valid


def _without_nulls(array: pa.Array, value: Any) -> pa.Array:
    return array.fill_null(value) if array.null_count else array


def _uuids(array: pa.Array) -> tuple[KeyValues, NDArray[np.bool_]]:
    valid = validity(array)
    if pa.types.is_fixed_size_binary(array.type):
        content = _without_nulls(array, bytes(UUID_BYTES))
        _, data = content.buffers()
        values = np.frombuffer(data, np.uint8, len(array) * UUID_BYTES, content.offset * UUID_BYTES)
        return values.reshape(len(array), UUID_BYTES), valid
    parsed, well_formed = parse_uuids(_without_nulls(array, "").cast(pa.string()))
    return parsed, valid & well_formed


def _texts(array: pa.Array, kind: KeyKind) -> tuple[KeyValues, NDArray[np.bool_]]:
    text = array.cast(pa.string())
    valid = validity(text)
    possible = _possible(text)
    if possible is not None:
        valid &= possible
    if not valid.all():
        text = pc.if_else(pa.array(valid), text.view(pa.binary()), b"").view(pa.string())
    if kind is KeyKind.PADDED_TEXT:
        text = pc.ascii_rtrim(text, characters=" ")
    return text.view(pa.binary()), valid


def _possible(text: pa.Array) -> NDArray[np.bool_] | None:
    """Where text is such that PostgreSQL can hold it; None if it all is, which is found out at memory speed."""
    offsets, data = binary_parts(text)
    used = data[offsets[0] : offsets[-1]]
    try:
        text.validate(full=True)
        if used.all():
            return None
    except pa.ArrowInvalid:
        pass
    return np.array([_is_possible(value) for value in text.view(pa.binary()).fill_null(b"").to_pylist()], np.bool_)


def _is_possible(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in value
