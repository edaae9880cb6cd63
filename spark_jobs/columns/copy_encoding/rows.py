"""Tuples of an arrow table as PostgreSQL's binary COPY format."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import plain_array, plain_type
from spark_jobs.columns.copy_encoding.characters import ByteaEncoder, JsonEncoder, TextEncoder, UuidEncoder
from spark_jobs.columns.copy_encoding.column_encoder import (
    LENGTH_BYTES,
    ColumnEncoder,
    Field,
    Positions,
    PostgresType,
    Target,
)
from spark_jobs.columns.copy_encoding.decimals import NumericEncoder
from spark_jobs.columns.copy_encoding.numbers_and_times import (
    BooleanEncoder,
    DateEncoder,
    FloatEncoder,
    IntegerEncoder,
    RealEncoder,
    TimestampEncoder,
)
from spark_jobs.columns.jit import kernel, read_only
from spark_jobs.errors import SchemaMismatchError

# PostgreSQL's type -> its encoder, and the types of a stream tuple's column that it takes.
_ENCODERS: dict[str, tuple[type[ColumnEncoder], str]] = {
    "int2": (IntegerEncoder, "tinyint, smallint, int, bigint"),
    "int4": (IntegerEncoder, "tinyint, smallint, int, bigint"),
    "int8": (IntegerEncoder, "tinyint, smallint, int, bigint"),
    "float4": (RealEncoder, "float, tinyint, smallint"),
    "float8": (FloatEncoder, "double, float, tinyint, smallint, int"),
    "numeric": (NumericEncoder, "decimal(p,s), tinyint, smallint, int, bigint"),
    "bool": (BooleanEncoder, "boolean"),
    "text": (TextEncoder, "string"),
    "varchar": (TextEncoder, "string"),
    "bpchar": (TextEncoder, "string"),
    "json": (JsonEncoder, "string"),
    "jsonb": (JsonEncoder, "string"),
    "uuid": (UuidEncoder, "string"),
    "date": (DateEncoder, "date"),
    "timestamp": (TimestampEncoder, "timestamp"),
    "timestamptz": (TimestampEncoder, "timestamp"),
    "bytea": (ByteaEncoder, "binary"),
}
_SUPPORTED = (
    "smallint, integer, bigint, real, double precision, numeric, boolean, text, varchar, char, "
    "date, timestamp, timestamptz, uuid, bytea, json, jsonb"
)
_HEADER = b"PGCOPY\n\xff\r\n\x00" + struct.pack(">ii", 0, 0)
_TRAILER = struct.pack(">h", -1)
_COUNT_BYTES = 2
_BLOCK_BYTES = 1 << 19  # a block stays in the processor's cache while one column after the other is written into it


def encoder_for(type: PostgresType, source: pa.DataType) -> ColumnEncoder:
    """The encoder of arrow values of type `source` for a column of type `type`.

    Raises:
        SchemaMismatchError: there is none: the type is not supported, or values would change on the way.
    """
    if type.name not in _ENCODERS:
        raise SchemaMismatchError(f"type {type.sql} is not supported; supported are {_SUPPORTED}")
    if type.scale is not None and type.scale < 0:
        raise SchemaMismatchError(f"type {type.sql} is not supported; use a scale of at least 0")
    encoder, sources = _ENCODERS[type.name]
    plain = plain_type(source)
    if not encoder.accepts(plain):
        raise SchemaMismatchError(f"{type.sql} can't keep values of type {plain}; it takes {sources}")
    return encoder(type, plain)


class Encoding(NamedTuple):
    """What became of a table.

    Attributes:
        rows: the tuples that fit, m of them.
        fitting: int64, shape (m,), their numbers in the table; None if all fit.
        unfit: int64, shape (k,), the numbers of the others, ascending.
        complaints: why each of those does not fit, k texts.
    """

    rows: EncodedRows
    fitting: Positions | None
    unfit: Positions
    complaints: list[str]


class EncodedRows:
    """Tuples that wait to be sent; they are rendered block by block while PostgreSQL takes them.

    Args:
        count: how many.
        fields: one for each column.
    """

    def __init__(self, count: int, fields: Sequence[Field]) -> None:
        self.count = count
        self._fields = fields
        all_widths = [field.widths() for field in fields]
        fixed = _COUNT_BYTES + LENGTH_BYTES * len(fields) + sum(width for width in all_widths if isinstance(width, int))
        varying = [width for width in all_widths if not isinstance(width, int)]
        self._ends = np.empty(count + 1, np.int64)
        self._ends[0] = 0
        if varying:
            self._ends[1:] = fixed
            for widths in varying:
                self._ends[1:] += widths
            np.cumsum(self._ends, out=self._ends)
        else:
            self._ends[:] = np.arange(count + 1) * fixed

    def stream(self, start: int = 0, stop: int | None = None) -> CopyStream:
        """The tuples start to stop as a file that psycopg2's copy_expert can read."""
        return CopyStream(self, start, self.count if stop is None else stop)

    def block_end(self, start: int, stop: int) -> int:
        """End of the block of tuples that begins at `start`: at least one tuple, at most a block's bytes if it can."""
        end = int(np.searchsorted(self._ends, self._ends[start] + _BLOCK_BYTES, side="right")) - 1
        return min(max(end, start + 1), stop)

    def render(self, start: int, stop: int) -> np.ndarray:
        """The bytes of tuples start to stop, uint8."""
        out = np.empty(self._ends[stop] - self._ends[start], np.uint8)
        positions = np.empty(stop - start, np.int64)
        _begin_tuples(out, positions, read_only(self._ends[start:stop]), len(self._fields))
        for field in self._fields:
            field.write(out, positions, start, stop)
        return out


@kernel
def _begin_tuples(out: NDArray[np.uint8], positions: Positions, ends: Positions, fields: int) -> None:
    """Write how many fields each tuple has, and where its first one begins."""
    for i in range(len(positions)):
        position = ends[i] - ends[0]
        out[position] = np.uint8(fields >> 8)
        out[position + 1] = np.uint8(fields & 0xFF)
        positions[i] = position + _COUNT_BYTES


class CopyStream(io.RawIOBase):
    """A readable binary file over encoded rows."""

    def __init__(self, rows: EncodedRows, start: int, stop: int) -> None:
        self._rows = rows
        self._next = start
        self._stop = stop
        self._block = memoryview(_HEADER)
        self._ended = False

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes (default: a block), in one copy; none at the end."""
        if not self._block:
            self._block = self._next_block()
        size = len(self._block) if size < 0 else size
        part, self._block = self._block[:size], self._block[size:]
        return bytes(part)

    def _next_block(self) -> memoryview:
        if self._next < self._stop:
            start, self._next = self._next, self._rows.block_end(self._next, self._stop)
            return self._rows.render(start, self._next).data
        if not self._ended:
            self._ended = True
            return memoryview(_TRAILER)
        return memoryview(b"")


def encode(table: pa.Table, targets: Sequence[Target]) -> Encoding:
    """Encode the tuples of a table, and find those that don't fit.

    Args:
        table: shape (n,), with the targets' source columns.
        targets: the columns of the COPY statement, in its order.

    Raises:
        SchemaMismatchError: a column of the table has a type that its target does not take.
    """
    columns = [plain_array(table[target.source]) for target in targets]
    encoders = [encoder_for(target.type, column.type) for target, column in zip(targets, columns, strict=True)]
    unfit, complaints = _unfit_tuples(targets, encoders, columns, table.num_rows)
    fitting = None
    if unfit.size:
        fitting = np.delete(np.arange(table.num_rows), unfit)
        columns = [column.take(pa.array(fitting)) for column in columns]
    fields = [encoder.field(column) for encoder, column in zip(encoders, columns, strict=True)]
    return Encoding(EncodedRows(table.num_rows - unfit.size, fields), fitting, unfit, complaints)


def _unfit_tuples(
    targets: Sequence[Target], encoders: Sequence[ColumnEncoder], columns: Sequence[pa.Array], count: int
) -> tuple[Positions, list[str]]:
    """Numbers of the tuples that don't fit, ascending, and for each why the first such column does not."""
    complaints: dict[int, str] = {}
    for target, encoder, column in zip(targets, encoders, columns, strict=True):
        if column.null_count and not target.nullable:
            for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
                complaints.setdefault(row, f"column {target.name}: it is null, and the column takes no nulls")
        unfit = encoder.unfit(column)
        if unfit is not None:
            for row in np.flatnonzero(unfit).tolist():
                if row not in complaints:
                    complaints[row] = f"column {target.name}: {encoder.complaint(column[row])}"
    rows = sorted(complaints)
    return np.array(rows, np.int64), [complaints[row] for row in rows]
