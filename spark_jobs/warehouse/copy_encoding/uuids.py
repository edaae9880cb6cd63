"""uuid, from text in any of the forms that PostgreSQL reads."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_jobs.joins.structures.jit import kernel
from spark_jobs.warehouse.copy_encoding.encoder import ColumnEncoder
from spark_jobs.warehouse.copy_encoding.field import (
    Bools,
    Bytes,
    Field,
    FixedWidthField,
    Integer,
    Offsets,
    byte_strings,
    validity,
)

UUID_BYTES = 16


class UuidEncoder(ColumnEncoder):
    """uuid."""

    @classmethod
    def accepts(cls, source: pa.DataType) -> bool:
        """See ColumnEncoder."""
        return pa.types.is_string(source) or pa.types.is_large_string(source)

    def unfit(self, values: pa.Array) -> Bools | None:
        """See ColumnEncoder."""
        readable = parse_uuids(values)[1]
        if readable.all():
            return None
        unreadable = ~readable & values.is_valid().to_numpy(zero_copy_only=False)
        return unreadable if unreadable.any() else None

    def complaint(self, value: pa.Scalar) -> str:
        """See ColumnEncoder."""
        from spark_jobs.warehouse.copy_encoding.characters import shown_text

        return f"{shown_text(value)} is no uuid; allowed is {self.allowed()}"

    def allowed(self) -> str:
        """See ColumnEncoder."""
        return "32 hexadecimal digits, a hyphen after any group of four, all in braces or not"

    def field(self, values: pa.Array) -> Field:
        """See ColumnEncoder."""
        parsed = parse_uuids(values)[0]
        return FixedWidthField(UUID_BYTES, validity(values), lambda start, stop: parsed[start:stop])


def parse_uuids(values: pa.Array) -> tuple[Bytes, Bools]:
    """Read uuids as PostgreSQL does.

    Args:
        values: string array, shape (n,).

    Returns:
        the uuids, uint8, shape (n, 16), and whether each could be read, bool, shape (n,). O(bytes).
    """
    offsets, data = byte_strings(values)
    parsed = np.zeros((len(values), UUID_BYTES), np.uint8)
    readable = np.zeros(len(values), np.bool_)
    _parse(offsets, data, parsed, readable)
    return parsed, readable


@kernel
def _hex_digit(byte: Integer) -> Integer:
    if 48 <= byte <= 57:
        return byte - 48
    letter = byte | 32
    if 97 <= letter <= 102:
        return letter - 87
    return -1


@kernel
def _parse(offsets: Offsets, data: Bytes, parsed: Bytes, readable: Bools) -> None:
    for i in range(len(readable)):
        position, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        braced = bool(position < stop and data[position] == 123)
        if braced:
            position += 1
        sound = True
        for k in range(16):
            if position + 2 > stop:
                sound = False
                break
            high, low = _hex_digit(np.int64(data[position])), _hex_digit(np.int64(data[position + 1]))
            if high < 0 or low < 0:
                sound = False
                break
            parsed[i, k] = np.uint8(high * 16 + low)
            position += 2
            if k % 2 == 1 and k < 15 and position < stop and data[position] == 45:
                position += 1
        if sound and braced:
            sound = bool(position < stop and data[position] == 125)
            position += 1
        readable[i] = sound and position == stop
