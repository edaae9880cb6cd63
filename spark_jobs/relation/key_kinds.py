"""The kinds of join key columns, and which column types of PostgreSQL and of streams they stand for."""

from __future__ import annotations

from enum import Enum

import pyarrow as pa


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
