"""text, varchar(n), char(n), json, jsonb and uuid, from strings; bytea, from binary."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import binary_parts
from spark_jobs.columns.copy_encoding.column_encoder import (
    Bools,
    Bytes,
    ColumnEncoder,
    Field,
    FixedWidthField,
    Integer,
    Offsets,
    VariableWidthField,
    non_null,
    shown,
    validity,
)
from spark_jobs.columns.jit import kernel
from spark_jobs.columns.uuid_text import UUID_BYTES, parse_uuids

_SOUND, _NOT_UTF8, _NUL, _TOO_LONG = range(4)
_JSONB_VERSION = b"\x01"


class TextEncoder(ColumnEncoder):
    """Strings of valid UTF-8 without NUL bytes, up to the column's length in characters.

    Spaces at the end of a char(n) mean nothing and may go beyond its length; in a varchar(n) they count.
    """

    @classmethod
    def accepts(cls, source: pa.DataType) -> bool:
        """See ColumnEncoder."""
        return pa.types.is_string(source) or pa.types.is_large_string(source)

    def unfit(self, values: pa.Array) -> Bools | None:
        """See ColumnEncoder. One pass over the bytes where all fit, a second one where some don't."""
        if self._all_fit(values):
            return None
        return non_null(self._faults(values) != _SOUND, values)

    def _all_fit(self, values: pa.Array) -> bool:
        offsets, data = binary_parts(values)
        longest = int(np.diff(offsets).max()) if len(values) else 0
        if self.type.length is not None and longest > self.type.length:
            return False
        return is_sound_text(values, data[offsets[0] : offsets[-1]])

    def _faults(self, values: pa.Array) -> np.ndarray:
        return text_faults(values, self.type.length, spaces_count=self.type.name != "bpchar")

    def complaint(self, value: pa.Scalar) -> str:
        """See ColumnEncoder."""
        fault = self._faults(pa.array([value.as_buffer().to_pybytes()], pa.binary()).view(pa.string()))[0]
        text = _shown_text(value)
        if fault == _NOT_UTF8:
            return f"{text} is not valid UTF-8, which {self.type.sql} must be"
        if fault == _NUL:
            return f"{text} holds a NUL byte, which {self.type.sql} can't"
        return f"{text} does not fit {self.type.sql}, which takes {self.allowed()}"

    def allowed(self) -> str:
        """See ColumnEncoder."""
        return "any text without NUL" if self.type.length is None else f"at most {self.type.length} characters"

    def field(self, values: pa.Array) -> Field:
        """See ColumnEncoder."""
        offsets, data = binary_parts(values)
        return VariableWidthField(offsets, data, validity(values))


def _shown_text(value: pa.Scalar) -> str:
    """A string value, which need not be valid UTF-8, as an error message shows it."""
    raw = value.as_buffer().to_pybytes()
    try:
        return shown(raw.decode())
    except UnicodeDecodeError:
        return shown(raw)


def is_sound_text(values: pa.Array, data: np.ndarray) -> bool:
    """Whether all strings are valid UTF-8 and their data holds no NUL byte. O(bytes), fast."""
    if not data.size or data.view(np.int8).min() > 0:
        return True  # ASCII
    if not data.all():
        return False
    offsets = binary_parts(values)[0]
    starts = offsets[offsets < offsets[-1]] - offsets[0]
    if (data[starts] & 0xC0 == 0x80).any():
        return False  # within a character
    whole = [None, pa.py_buffer(np.array([0, len(data)])), pa.py_buffer(data)]
    try:
        pa.Array.from_buffers(pa.large_string(), 1, whole).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def text_faults(values: pa.Array, length: int | None = None, *, spaces_count: bool = True) -> np.ndarray:
    """What keeps each string from being stored: uint8, shape (n,), 0 if nothing does. O(bytes).

    Args:
        values: string array, shape (n,).
        length: most characters; None without limit.
        spaces_count: whether spaces beyond the length are too long as well.
    """
    offsets, data = binary_parts(values)
    faults = np.empty(len(values), np.uint8)
    _find_faults(offsets, data, -1 if length is None else length, spaces_count, faults)
    return faults


@kernel
def _character_bytes(data: Bytes, position: Integer, stop: Integer) -> int:
    """Length of the UTF-8 character at `position`, 0 if there is none. What UTF-8 is: Unicode standard, table 3-7."""
    lead = np.int64(data[position])
    if lead < 0x80:
        return 1
    if lead < 0xC2 or lead > 0xF4:
        return 0
    length = 2 if lead < 0xE0 else (3 if lead < 0xF0 else 4)
    if position + length > stop:
        return 0
    for k in range(1, length):
        if data[position + k] & 0xC0 != 0x80:
            return 0
    second = np.int64(data[position + 1])
    overlong = (lead == 0xE0 and second < 0xA0) or (lead == 0xF0 and second < 0x90)
    outside = (lead == 0xED and second > 0x9F) or (lead == 0xF4 and second > 0x8F)  # surrogates, beyond U+10FFFF
    return 0 if overlong or outside else length


@kernel
def _find_faults(
    offsets: Offsets, data: Bytes, most_characters: int, spaces_count: bool, faults: NDArray[np.uint8]
) -> None:
    for i in range(len(faults)):
        position, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        characters = 0
        faults[i] = _SOUND
        while position < stop:
            length = _character_bytes(data, position, stop)
            if length == 0:
                faults[i] = _NOT_UTF8
                break
            if data[position] == 0:
                faults[i] = _NUL
                break
            if most_characters >= 0 and characters >= most_characters and (spaces_count or data[position] != 32):
                faults[i] = _TOO_LONG
            characters += 1
            position += length


class ByteaEncoder(ColumnEncoder):
    """bytea, from binary."""

    @classmethod
    def accepts(cls, source: pa.DataType) -> bool:
        """See ColumnEncoder."""
        return pa.types.is_binary(source) or pa.types.is_large_binary(source)

    def allowed(self) -> str:
        """See ColumnEncoder."""
        return "any bytes"

    def field(self, values: pa.Array) -> Field:
        """See ColumnEncoder."""
        offsets, data = binary_parts(values)
        return VariableWidthField(offsets, data, validity(values))


class JsonEncoder(ColumnEncoder):
    """json and jsonb, from JSON text. Every value is parsed: about a microsecond each."""

    @classmethod
    def accepts(cls, source: pa.DataType) -> bool:
        """See ColumnEncoder."""
        return TextEncoder.accepts(source)

    def unfit(self, values: pa.Array) -> Bools | None:
        """See ColumnEncoder."""
        unfit = np.array([value.is_valid and not _is_json(value) for value in values], np.bool_)
        return unfit if unfit.any() else None

    def complaint(self, value: pa.Scalar) -> str:
        """See ColumnEncoder."""
        return f"{_shown_text(value)} is no JSON text, which {self.type.sql} must be"

    def allowed(self) -> str:
        """See ColumnEncoder."""
        return "JSON text"

    def field(self, values: pa.Array) -> Field:
        """See ColumnEncoder."""
        offsets, data = binary_parts(values)
        prefix = _JSONB_VERSION if self.type.name == "jsonb" else b""
        return VariableWidthField(offsets, data, validity(values), prefix)


def _is_json(value: pa.Scalar) -> bool:
    raw = value.as_buffer().to_pybytes()
    try:
        json.loads(raw.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is Python's, not JSON's")


class UuidEncoder(ColumnEncoder):
    """uuid."""

    @classmethod
    def accepts(cls, source: pa.DataType) -> bool:
        """See ColumnEncoder."""
        return pa.types.is_string(source) or pa.types.is_large_string(source)

    def unfit(self, values: pa.Array) -> Bools | None:
        """See ColumnEncoder."""
        return non_null(~parse_uuids(values)[1], values)

    def complaint(self, value: pa.Scalar) -> str:
        """See ColumnEncoder."""

        return f"{_shown_text(value)} is no uuid; allowed is {self.allowed()}"

    def allowed(self) -> str:
        """See ColumnEncoder."""
        return "32 hexadecimal digits, a hyphen after any group of four, all in braces or not"

    def field(self, values: pa.Array) -> Field:
        """See ColumnEncoder."""
        parsed = parse_uuids(values)[0]
        return FixedWidthField(UUID_BYTES, validity(values), lambda start, stop: parsed[start:stop])


def storable(text: str | bytes) -> str:
    """A text as PostgreSQL can store it, whatever is quoted in it: NUL, and what is not UTF-8, as escapes."""
    raw = text.encode("utf-8", "backslashreplace") if isinstance(text, str) else text
    return raw.decode("utf-8", "backslashreplace").replace("\0", "\\0")
