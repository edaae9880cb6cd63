"""A writer's Avro schema as a program that reads the wanted fields of its records, and passes over all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import binary_array, fixed_width_array
from spark_jobs.errors import FreshetError
from spark_jobs.source.records.avro import kernels
from spark_jobs.source.records.avro.kernels import big_endian_words, gather_bytes, read_records

Wanted = Mapping[str, "str | Wanted"]
"""Fields of a record: the name that each one's value gets, or the wanted fields of a record in it. Of no field (""),
the name of a value that is not null where there is such a record."""

_INSTRUCTIONS = {
    "null": kernels.NULL,
    "boolean": kernels.BOOLEAN,
    "int": kernels.NUMBER,
    "long": kernels.NUMBER,
    "float": kernels.FLOAT,
    "double": kernels.DOUBLE,
    "bytes": kernels.BYTES,
    "string": kernels.BYTES,
}
_PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
# Logical types, and what Debezium and Kafka Connect write beside the type.
_MEANINGS = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "local-timestamp-micros"): pa.timestamp("us", "UTC"),
    ("int", "io.debezium.time.Date"): pa.date32(),
    ("long", "io.debezium.time.Timestamp"): pa.timestamp("ms", "UTC"),
    ("long", "io.debezium.time.MicroTimestamp"): pa.timestamp("us", "UTC"),
    ("long", "io.debezium.time.NanoTimestamp"): pa.timestamp("ns", "UTC"),
}
WRONG = {
    kernels.CUT: "it ends too early",
    kernels.NO_NUMBER: "it ends too early, or holds no number where one should be",
    kernels.NO_BRANCH: "a union has no such branch",
    kernels.LEFT_OVER: "bytes are left over",
    kernels.NO_BOOLEAN: "a boolean is neither 0 nor 1",
    kernels.NO_LENGTH: "a length is negative",
    kernels.TOO_DEEP: "arrays are nested too deeply",
    kernels.TOO_MANY: "an array or map has more items than the record has bytes",
    kernels.NO_VALUE: "an enum has no such symbol, or a decimal more than 38 digits",
}
"""What may be wrong with a record that is read by a schema that is not its own, or is damaged."""


# A schema of some KB whose records hold each other by name may have any number; each costs time for each record.
_MOST_TYPES = 1 << 16
_LARGEST_FIXED = (1 << 31) - 1


class UnfitSchemaError(FreshetError):
    """A schema is none, or has not what is wanted of it; the message says what."""


@dataclass(frozen=True)
class _Leaf:
    """A wanted value.

    Attributes:
        kind: its type in arrow.
        symbols: of an enum.
    """

    kind: pa.DataType
    symbols: tuple[str, ...] = ()


@dataclass
class Program:
    """Reads the records of one schema.

    Attributes:
        code: the instructions, int32.
        leaves: the wanted values, by name, in the order of their columns.
    """

    code: NDArray[np.int32]
    leaves: dict[str, _Leaf] = field(default_factory=dict)

    def read(
        self, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[dict[str, pa.Array], NDArray[np.int8]]:
        """The wanted values of records. O(bytes).

        Args:
            data: bytes in which the records lie.
            starts: where each starts, shape (n,).
            ends: where each ends, shape (n,).

        Returns:
            an array for each name, shape (n,); and int8, shape (n,), what is wrong with each record: `kernels.SOUND`,
            or a key of `WRONG`. Its values are null then.
        """
        shape = (max(len(self.leaves), 1), len(starts))
        values, lengths, valid = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.bool_)
        states = np.zeros(len(starts), np.int8)
        read_records(data, starts, ends, self.code, values, lengths, valid, states)
        valid &= states == kernels.SOUND
        arrays = {}
        for column, (name, leaf) in enumerate(self.leaves.items()):
            of_leaf = values[column], lengths[column], valid[column]
            if leaf.symbols:
                arrays[name], broken = _symbols(leaf, *of_leaf)
            elif pa.types.is_decimal(leaf.kind):
                arrays[name], broken = _decimals(leaf, data, *of_leaf)
            else:
                arrays[name], broken = _array(leaf.kind, data, *of_leaf), None
            if broken is not None:
                states[broken] = kernels.NO_VALUE
        return arrays, states


class _Compiler:
    """Makes the program of a schema.

    Args:
        schema: as `fastavro` has parsed it.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._named: dict[str, Any] = {}
        self._open: list[str] = []
        self._code: list[int] = []
        self._leaves: dict[str, _Leaf] = {}
        self._types = 0

    def program(self, wanted: Wanted) -> Program:
        """The program that reads what is wanted."""
        self._record(self._schema, wanted)
        self._emit(kernels.END)
        return Program(np.array(self._code, np.int32), self._leaves)

    def _emit(self, operation: int, operand: int = 0, column: int = -1) -> int:
        self._code += [operation, operand, column]
        return len(self._code) - 3

    def _any(self, schema: Any, wanted: str | Wanted | None) -> None:
        """Read a value of any type."""
        self._types += 1
        if self._types > _MOST_TYPES:
            raise UnfitSchemaError(f"it has more than {_MOST_TYPES} values, named types counted where they are named")
        if isinstance(schema, list):
            self._union(schema, wanted)
            return
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        kind = schema if isinstance(schema, str) else schema["type"]
        if isinstance(kind, dict | list):
            self._any(kind, wanted)
        elif kind in {"record", "error"}:
            if isinstance(wanted, str):
                raise _not_a_value(wanted, kind)
            self._record(schema, wanted or {})
        elif kind in {"array", "map"}:
            if wanted is not None:
                raise _not_a_value(wanted, kind)
            self._items(schema, kind)
        elif isinstance(wanted, Mapping):
            raise _not_a_value(wanted, kind)
        else:
            self._value(schema, kind, wanted)

    def _value(self, schema: Any, kind: str, wanted: str | None) -> None:
        attributes = schema if isinstance(schema, dict) else {}
        if "name" in attributes:
            self._named[attributes["name"]] = schema
        column = -1
        if wanted is not None:
            column = len(self._leaves)
            self._leaves[wanted] = _leaf(kind, attributes)
        if kind == "fixed":
            size = attributes["size"]
            if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _LARGEST_FIXED:
                raise UnfitSchemaError(f"{attributes.get('name')} is of type fixed and size {size!r}, which can't be")
            self._emit(kernels.FIXED, attributes["size"], column)
        elif kind == "enum":
            self._emit(kernels.NUMBER, 0, column)
        else:
            self._emit(_INSTRUCTIONS[kind], 0, column)

    def _record(self, schema: Any, wanted: Wanted) -> None:
        if not isinstance(schema, dict) or schema["type"] not in {"record", "error"}:
            raise UnfitSchemaError("it is no record, and only a record's fields can be columns")
        if schema["name"] in self._open:
            raise UnfitSchemaError(f"record {schema['name']} holds itself, which is not supported")
        self._named[schema["name"]] = schema
        self._open.append(schema["name"])
        if "" in wanted:  # whether there is such a record
            self._emit(kernels.FIXED, 0, len(self._leaves))
            self._leaves[str(wanted[""])] = _Leaf(pa.binary())
        for each in schema["fields"]:
            self._any(each["type"], wanted.get(each["name"]))
        self._open.pop()

    def _union(self, branches: list[Any], wanted: str | Wanted | None) -> None:
        others = [branch for branch in branches if branch != "null"]
        if wanted is not None and len(others) > 1:
            raise _not_a_value(wanted, "union of several types")
        table = self._emit(kernels.UNION, len(branches)) + 3
        self._code += [0] * len(branches)
        jumps = []
        for number, branch in enumerate(branches):
            self._code[table + number] = len(self._code)
            self._any(branch, None if branch == "null" else wanted)
            jumps.append(self._emit(kernels.JUMP))
        for jump in jumps:
            self._code[jump + 1] = len(self._code)

    def _items(self, schema: Any, kind: str) -> None:
        start = self._emit(kernels.BLOCKS)
        if kind == "map":
            self._emit(kernels.BYTES)
        self._any(schema["items" if kind == "array" else "values"], None)
        self._emit(kernels.AGAIN, start)
        self._code[start + 1] = len(self._code)


def compiled(schema: Any, wanted: Wanted) -> Program:
    """The program that reads these fields of records of a schema.

    Args:
        schema: as `fastavro` has parsed it.
        wanted: fields that it has.

    Raises:
        UnfitSchemaError: it can't be read so.
    """
    return _Compiler(schema).program(wanted)


def _leaf(kind: str, attributes: Mapping[str, Any]) -> _Leaf:
    if kind == "enum":
        return _Leaf(pa.string(), tuple(attributes["symbols"]))
    if attributes.get("logicalType") == "decimal" and kind in {"bytes", "fixed"}:
        return _Leaf(pa.decimal128(38, attributes.get("scale", 0)))  # how many digits it has the column decides
    if kind == "fixed":
        return _Leaf(pa.binary())
    for meaning in (str(attributes.get("logicalType")), str(attributes.get("connect.name"))):
        if (kind, meaning) in _MEANINGS:
            return _Leaf(_MEANINGS[kind, meaning])
    if kind not in _PRIMITIVES:
        raise _not_a_value("", kind)
    return _Leaf(_PRIMITIVES[kind])


def _not_a_value(wanted: str | Wanted, kind: str) -> UnfitSchemaError:
    name = wanted if isinstance(wanted, str) else "envelope"
    return UnfitSchemaError(f"{name} is of type {kind} there, which no column takes")


def _symbols(
    leaf: _Leaf, values: NDArray[np.int64], _: NDArray[np.int64], valid: NDArray[np.bool_]
) -> tuple[pa.Array, NDArray[np.bool_]]:
    inside = (values >= 0) & (values < len(leaf.symbols))
    return pa.array(leaf.symbols).take(pa.array(values, mask=~(valid & inside))), valid & ~inside


def _decimals(
    leaf: _Leaf,
    data: NDArray[np.uint8],
    values: NDArray[np.int64],
    lengths: NDArray[np.int64],
    valid: NDArray[np.bool_],
) -> tuple[pa.Array, NDArray[np.bool_]]:
    words, fits = np.empty((len(values), 2), np.uint64), np.empty(len(values), np.bool_)
    big_endian_words(data, values, np.where(valid, lengths, 0), words, fits)
    return fixed_width_array(leaf.kind, words, valid & fits), valid & ~fits


def _array(
    kind: pa.DataType,
    data: NDArray[np.uint8],
    values: NDArray[np.int64],
    lengths: NDArray[np.int64],
    valid: NDArray[np.bool_],
) -> pa.Array:
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        offsets = np.zeros(len(values) + 1, np.int32)
        np.cumsum(np.where(valid, lengths, 0), out=offsets[1:])
        gathered = np.empty(offsets[-1], np.uint8)
        gather_bytes(data, values, offsets, gathered)
        return binary_array(offsets, gathered, valid, kind)
    if kind == pa.float64():
        return pa.array(values.view(np.float64), mask=~valid)
    if kind == pa.float32():
        return pa.array(values.astype(np.uint32).view(np.float32), mask=~valid)
    if kind == pa.bool_():
        return pa.array(values.astype(np.bool_), mask=~valid)
    if kind == pa.date32():  # a day beyond 32 bits is none of ours either
        values = values.clip(-(1 << 31), (1 << 31) - 1).astype(np.int32)
    numbers = pa.array(values, mask=~valid)
    return numbers if kind == pa.int32() else numbers.view(kind)  # a damaged record may hold more than 32 bits
