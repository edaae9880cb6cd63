"""UUIDs between their text, in all spellings that PostgreSQL takes, and their 16 bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import binary_parts
from spark_jobs.columns.jit import kernel

UUID_BYTES = 16
UUID_CHARACTERS = 36
_HYPHENS = [8, 13, 18, 23]
_DIGIT_PLACES = np.array([place for place in range(UUID_CHARACTERS) if place not in _HYPHENS])
_TWO_DIGITS = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint8).reshape(256, 2)
_OPENING, _CLOSING, _HYPHEN = ord("{"), ord("}"), ord("-")
_NOT_A_DIGIT = 255
_DIGIT_VALUES = np.full(256, _NOT_A_DIGIT, np.uint8)
for _value, _digit in enumerate(b"0123456789abcdef"):
    _DIGIT_VALUES[[_digit, ord(chr(_digit).upper())]] = _value


def parse_uuids(text: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Read UUIDs as PostgreSQL does: any case, braces around, a hyphen after any group of four digits.

    Args:
        text: string array, shape (n,); null is no UUID.

    Returns:
        Their bytes, uint8 (n, 16), and where the text is a UUID, bool (n,).
    """
    offsets, data = binary_parts(text)
    parsed = np.zeros((len(text), UUID_BYTES), np.uint8)
    valid = np.empty(len(text), np.bool_)
    _parse(offsets, data, parsed, valid)
    return parsed, valid


def format_uuids(values: NDArray[np.uint8]) -> list[str]:
    """Write UUIDs, uint8 (n, 16), as PostgreSQL does. Length n."""
    text = uuid_characters(values).tobytes().decode("ascii")
    return [text[start : start + UUID_CHARACTERS] for start in range(0, len(text), UUID_CHARACTERS)]


def uuid_characters(values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The ASCII characters of the text of UUIDs, uint8 (n, 16); uint8 (n, 36)."""
    text = np.full((len(values), UUID_CHARACTERS), _HYPHEN, np.uint8)
    text[:, _DIGIT_PLACES] = _TWO_DIGITS[values].reshape(len(values), 2 * UUID_BYTES)
    return text


@kernel
def _parse(
    offsets: NDArray[np.int32], data: NDArray[np.uint8], parsed: NDArray[np.uint8], valid: NDArray[np.bool_]
) -> None:
    for row in range(len(valid)):
        position, end = offsets[row], offsets[row + 1]
        valid[row] = False
        if end > position and data[position] == _OPENING:
            position += 1
            end -= 1
            if end < position or data[end] != _CLOSING:
                continue
        count = 0
        while count < UUID_BYTES and position + 1 < end:
            high, low = _DIGIT_VALUES[data[position]], _DIGIT_VALUES[data[position + 1]]
            if max(high, low) == _NOT_A_DIGIT:
                break
            parsed[row, count] = high * 16 + low
            position += 2
            count += 1
            if count % 2 == 0 and count < UUID_BYTES and position < end and data[position] == _HYPHEN:
                position += 1
        valid[row] = count == UUID_BYTES and position == end
