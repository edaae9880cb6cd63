"""What every column encoder has in common: which values its column takes, and how they are laid out for COPY.

A field of PostgreSQL's binary COPY format is its length as a big-endian int32, then that many bytes; a null is the
length -1 alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.jit import kernel, kernel_part

_HEADER = 4  # PostgreSQL adds this to the modifiers of varchar, char and numeric
_LONGEST_SHOWN = 60
Bytes = NDArray[np.uint8]
Bools = NDArray[np.bool_]
Positions = NDArray[np.int64]
Offsets = NDArray[np.int32] | NDArray[np.int64]
Integer = int | np.int64
LENGTH_BYTES = 4
_NO_NULLS = np.empty(0, np.bool_)  # stands for "all valid" in the kernels


@dataclass(frozen=True)
class PostgresType:
    """The type of a column.

    Attributes:
        name: PostgreSQL's internal name of the base type: int8, bpchar, timestamptz, ...
        sql: as SQL writes it, with modifiers: bigint, char(3), numeric(15,2), ...
        length: most characters of varchar(n) and char(n); None without limit.
        precision: digits of numeric(p,s); None without limit.
        scale: digits of numeric(p,s) after the point; None without limit.
        fraction: digits of a second that timestamp(p) keeps; None for all other types.
    """

    name: str
    sql: str
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    fraction: int | None = None

    @classmethod
    def from_catalog(cls, name: str, sql: str, modifier: int) -> PostgresType:
        """Read pg_type.typname, format_type() and pg_attribute.atttypmod (-1: no modifier)."""
        limited = modifier >= 0
        match name:
            case "varchar" | "bpchar":
                return cls(name, sql, length=modifier - _HEADER if limited else None)
            case "numeric" if limited:
                digits = modifier - _HEADER
                # The scale is a signed number of eleven bits.
                return cls(name, sql, precision=digits >> 16, scale=((digits & 0x7FF) ^ 0x400) - 0x400)
            case "timestamp" | "timestamptz":
                return cls(name, sql, fraction=modifier if limited else 6)
            case _:
                return cls(name, sql)


class Target(NamedTuple):
    """A column to be loaded.

    Attributes:
        name: the column's name in PostgreSQL.
        source: the column of the arrow table that it gets its values from.
        type: its type.
        nullable: whether it takes nulls.
    """

    name: str
    source: str
    type: PostgresType
    nullable: bool


class ColumnEncoder(ABC):
    """Encodes arrow values for one column. A column takes a value only if it keeps it exactly.

    Args:
        type: the column's type.
        source: arrow type of the values, one for which `accepts` is true.
    """

    def __init__(self, type: PostgresType, source: pa.DataType) -> None:
        self.type = type
        self.source = source

    @classmethod
    @abstractmethod
    def accepts(cls, source: pa.DataType) -> bool:
        """Whether values of this arrow type can be loaded at all; single values may still not fit."""

    def unfit(self, values: pa.Array) -> Bools | None:
        """True for values, not nulls, that the column can't take, shape (n,); None if it takes all, as by default."""
        return None

    def complaint(self, value: pa.Scalar) -> str:
        """Why an unfit value does not fit: the value, shortened, and what is allowed."""
        return f"{shown(value.as_py())} does not fit {self.type.sql}, which takes {self.allowed()}"

    @abstractmethod
    def allowed(self) -> str:
        """What the column takes, to follow `which takes`."""

    @abstractmethod
    def field(self, values: pa.Array) -> Field:
        """The values, none of them unfit, ready to be sent."""


def non_null(unfit: Bools, values: pa.Array) -> Bools | None:
    """The same without nulls; None if nothing is left."""
    if not unfit.any():
        return None
    if values.null_count:
        unfit &= validity(values)
    return unfit if unfit.any() else None


def shown(value: object) -> str:
    """A value as an error message shows it: printable ASCII and short."""
    text = ascii(value) if isinstance(value, str | bytes) else str(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


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
        valid: bool, shape (n,), False for nulls; `_NO_NULLS` if there are none.
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
        _write_fixed(out, positions, self._render(start, stop).reshape(-1), self._width, self._valid[start:stop])


class VariableWidthField(Field):
    """Byte strings in Arrow's layout.

    Args:
        offsets: int32 or int64, shape (n + 1,): string i is data[offsets[i]:offsets[i + 1]].
        data: uint8.
        valid: bool, shape (n,), False for nulls; `_NO_NULLS` if there are none.
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
    """False for nulls, shape (n,); `_NO_NULLS` if there are none."""
    return values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else _NO_NULLS


@kernel_part
def _word_at(data: Bytes, start: Integer, count: int) -> np.uint64:
    """`count` bytes as a little-endian integer; for a constant count this compiles to one load."""
    word = np.uint64(0)
    for i in range(count):
        word |= np.uint64(data[np.uint64(start + i)]) << np.uint64(8 * i)
    return word


@kernel_part
def _put_word(out: Bytes, position: Integer, word: np.uint64, count: int) -> None:
    """The reverse; for a constant count this compiles to one store."""
    for i in range(count):
        out[np.uint64(position + i)] = np.uint8((word >> np.uint64(8 * i)) & np.uint64(0xFF))


@kernel_part
def _put_length(out: Bytes, position: Integer, length: Integer) -> None:
    for i in range(LENGTH_BYTES):
        out[np.uint64(position + i)] = np.uint8((length >> (24 - 8 * i)) & 0xFF)


@kernel_part
def _copy(out: Bytes, position: Integer, data: Bytes, start: Integer, count: Integer) -> None:
    """Copy bytes by words, the last of which overlaps the one before it: a loop over bytes takes twice as long."""
    if count >= 8:
        for k in range(0, count - 8, 8):
            _put_word(out, position + k, _word_at(data, start + k, 8), 8)
        last = count - 8
        _put_word(out, position + last, _word_at(data, start + last, 8), 8)
    elif count >= 4:
        first, second = _word_at(data, start, 4), _word_at(data, start + count - 4, 4)
        _put_word(out, position, first, 4)
        _put_word(out, position + count - 4, second, 4)
    else:
        for k in range(count):
            out[np.uint64(position + k)] = data[np.uint64(start + k)]


@kernel
def _write_fixed(out: Bytes, positions: Positions, values: Bytes, width: int, valid: Bools) -> None:
    for i in range(len(positions)):
        position = positions[i]
        if valid.size and not valid[i]:
            _put_length(out, position, -1)
            positions[i] = position + 4
            continue
        _put_length(out, position, width)
        _copy(out, position + 4, values, i * width, width)
        positions[i] = position + 4 + width


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
        start, length = np.int64(offsets[i]), np.int64(offsets[i + 1]) - np.int64(offsets[i])
        _put_length(out, position, length + prefix.size)
        position += 4
        for k in range(prefix.size):
            out[position + k] = prefix[k]
        position += prefix.size
        _copy(out, position, data, start, length)
        positions[i] = position + length
