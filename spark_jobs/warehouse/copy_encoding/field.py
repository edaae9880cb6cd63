"""One column's values, ready to be written as fields of PostgreSQL's binary COPY format.

A field is its length as a big-endian int32, then that many bytes; a null is the length -1 alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.joins.structures.jit import kernel, read_only

Bytes = NDArray[np.uint8]
Bools = NDArray[np.bool_]
Positions = NDArray[np.int64]
Offsets = NDArray[np.int32] | NDArray[np.int64]
Integer = int | np.int64

LENGTH_BYTES = 4
NO_NULLS = np.empty(0, np.bool_)  # stands for "all valid" in the kernels


class Field(ABC):
    """The values of one column for n tuples."""

    @abstractmethod
    def widths(self) -> int | Positions:
        """Bytes of each value without its length word: one number if all are equal, else int64, shape (n,)."""

    @abstractmethod
    def write(self, out: Bytes, positions: Positions, start: int, stop: int) -> None:
        """Write the fields of tuples start to stop.

        Args:
            out: uint8, where to.
            positions: int64, shape (stop - start,): where in `out` each tuple's field begins. They are moved
                behind the fields.
            start: first tuple.
            stop: the tuple after the last one.
        """


class FixedWidthField(Field):
    """Values that all take the same number of bytes.

    Args:
        width: bytes of a value.
        valid: bool, shape (n,), False for nulls; `NO_NULLS` if there are none.
        render: gives the values start to stop as they are sent: uint8, shape (stop - start, width).
    """

    def __init__(self, width: int, valid: Bools, render: Callable[[int, int], Bytes]) -> None:
        self._width = width
        self._valid = valid
        self._render = render

    def widths(self) -> int | Positions:
        """See Field."""
        return self._valid * np.int64(self._width) if self._valid.size else self._width

    def write(self, out: Bytes, positions: Positions, start: int, stop: int) -> None:
        """See Field."""
        _write_fixed(out, positions, self._render(start, stop), self._valid[start:stop])


class VariableWidthField(Field):
    """Byte strings in Arrow's layout.

    Args:
        offsets: int32 or int64, shape (n + 1,): string i is data[offsets[i]:offsets[i + 1]].
        data: uint8.
        valid: bool, shape (n,), False for nulls; `NO_NULLS` if there are none.
        prefix: bytes sent before each value.
    """

    def __init__(self, offsets: Offsets, data: Bytes, valid: Bools, prefix: bytes = b"") -> None:
        self._offsets = offsets
        self._data = data
        self._valid = valid
        self._prefix = np.frombuffer(prefix, np.uint8)

    def widths(self) -> int | Positions:
        """See Field."""
        widths = np.diff(self._offsets).astype(np.int64) + self._prefix.size
        return widths * self._valid if self._valid.size else widths

    def write(self, out: Bytes, positions: Positions, start: int, stop: int) -> None:
        """See Field."""
        offsets, valid = self._offsets[start : stop + 1], self._valid[start:stop]
        _write_variable(out, positions, offsets, self._data, valid, self._prefix)


def validity(values: pa.Array) -> Bools:
    """False for nulls, shape (n,); `NO_NULLS` if there are none."""
    return values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else NO_NULLS


def plain_values(values: pa.Array, dtype: str) -> NDArray:
    """The values of a fixed-width array as numpy sees them, shape (n,); anything where they are null. No copy."""
    data = values.buffers()[1]
    if data is None:
        return np.zeros(len(values), dtype)
    return np.frombuffer(data, dtype)[values.offset : values.offset + len(values)]


def byte_strings(values: pa.Array) -> tuple[Offsets, Bytes]:
    """Offsets, shape (n + 1,), and data of a string or binary array, to be read only. No copy."""
    large = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    _, offsets, data = values.buffers()
    if offsets is None or not len(values):
        return read_only(np.zeros(len(values) + 1, np.int32)), read_only(np.empty(0, np.uint8))
    offset_type = np.dtype(np.int64 if large else np.int32)
    numbers = np.frombuffer(offsets, offset_type)[values.offset : values.offset + len(values) + 1]
    return read_only(numbers), read_only(np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8))


@kernel
def _put_length(out: Bytes, position: Integer, length: Integer) -> None:
    out[position] = np.uint8((length >> 24) & 0xFF)
    out[position + 1] = np.uint8((length >> 16) & 0xFF)
    out[position + 2] = np.uint8((length >> 8) & 0xFF)
    out[position + 3] = np.uint8(length & 0xFF)


@kernel
def _write_fixed(out: Bytes, positions: Positions, values: Bytes, valid: Bools) -> None:
    width = values.shape[1]
    for i in range(len(positions)):
        position = positions[i]
        if valid.size and not valid[i]:
            _put_length(out, position, -1)
            positions[i] = position + 4
            continue
        _put_length(out, position, width)
        position += 4
        for k in range(width):
            out[position + k] = values[i, k]
        positions[i] = position + width


@kernel
def _write_variable(
    out: Bytes, positions: Positions, offsets: Offsets, data: Bytes, valid: Bools, prefix: Bytes
) -> None:
    for i in range(len(positions)):
        position = positions[i]
        if valid.size and not valid[i]:
            _put_length(out, position, -1)
            positions[i] = position + 4
            continue
        start, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        _put_length(out, position, stop - start + prefix.size)
        position += 4
        for k in range(prefix.size):
            out[position + k] = prefix[k]
        position += prefix.size
        for k in range(stop - start):
            out[position + k] = data[start + k]
        positions[i] = position + stop - start
