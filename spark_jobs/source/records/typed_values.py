"""Values that have types of their own, as those of the columns: which types are taken for which, and how.

Parquet's columns and Avro's fields come here as arrow arrays. The contract is in this room's README.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.columns.copy_encoding.column_encoder import shown
from spark_jobs.definition.ddl import StreamType
from spark_jobs.source.records.decoded import Decoded, arrow_schema, complaint
from spark_jobs.source.records.texts import Converted, convert_or_fault, within

_ANY_INTEGER = pa.decimal128(20, 0)


def _is_float(*bits: int) -> Callable[[pa.DataType], bool]:
    return lambda kind: pa.types.is_floating(kind) and kind.bit_width in bits


def _is_integer_up_to(bits: int) -> Callable[[pa.DataType], bool]:
    """Signed and unsigned ones that a float of that many digits holds exactly."""
    return lambda kind: pa.types.is_integer(kind) and kind.bit_width <= bits


def is_any_text(kind: pa.DataType) -> bool:
    """Whether values are texts."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def is_any_binary(kind: pa.DataType) -> bool:
    """Whether values are bytes of any number."""
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)


_Test = Callable[[pa.DataType], bool]
_SAFE: dict[str, tuple[str, tuple[_Test, ...]]] = {
    "bigint": ("an integer", (pa.types.is_integer,)),
    "int": ("an integer", (pa.types.is_integer,)),
    "smallint": ("an integer", (pa.types.is_integer,)),
    "tinyint": ("an integer", (pa.types.is_integer,)),
    "float": ("float, or an integer of 16 bits", (_is_float(16, 32), _is_integer_up_to(16))),
    "double": ("double, float, or an integer of 32 bits", (_is_float(16, 32, 64), _is_integer_up_to(32))),
    "decimal": ("decimal, or an integer", (pa.types.is_decimal, pa.types.is_integer)),
    "boolean": ("boolean", (pa.types.is_boolean,)),
    "string": ("string, or binary that is UTF-8", (is_any_text, is_any_binary)),
    "date": ("date", (pa.types.is_date32,)),
    "timestamp": ("timestamp", (pa.types.is_timestamp,)),
    "binary": ("binary", (is_any_binary, pa.types.is_fixed_size_binary)),
}


def misfit(stored: pa.DataType, kind: StreamType) -> str | None:
    """What is wrong with taking values of a type for a column; None: nothing."""
    if pa.types.is_dictionary(stored):
        stored = stored.value_type
    taken, tests = _SAFE[kind.name]
    if pa.types.is_null(stored) or any(test(stored) for test in tests):
        return None
    return f"is of type {stored}, and {kind} takes {taken}"


def plain(values: pa.Array) -> pa.Array:
    """The same values, not as a dictionary."""
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def as_tuples(
    stored: Mapping[str, pa.Array], columns: Mapping[str, StreamType], count: int, faults: Mapping[int, str]
) -> Decoded:
    """The tuples of n records whose values are there; one that does not fit its column costs its record only.

    Args:
        stored: column -> its values, shape (n,), of a type that fits (`misfit`); where one is missing it is null.
        columns: the source's schema.
        count: n.
        faults: number of a record -> what is wrong with it already.
    """
    reasons = dict(faults)
    arrays = []
    for name, kind in columns.items():
        if name not in stored:
            arrays.append(pa.nulls(count, kind.arrow()))
            continue
        values, unfit = _fitted(stored[name], kind)
        for number in [] if unfit is None else unfit.nonzero()[0].tolist():
            if number not in reasons:
                reasons[number] = complaint(name, _shown(stored[name][number]), kind)
        arrays.append(values)
    told = pa.nulls(count, pa.string())
    if reasons:
        told = pa.array(map(reasons.get, range(count)), pa.string())
        arrays = [pc.if_else(told.is_valid(), None, values) for values in arrays]
    return Decoded(pa.Table.from_arrays(arrays, schema=arrow_schema(columns)), told)


def _fitted(values: pa.Array, kind: StreamType) -> Converted:
    """Values as the column's type; those that it does not hold exactly are at fault."""
    arrow = kind.arrow()
    if kind.name == "string":
        # What a file calls a string need not be UTF-8.
        return convert_or_fault(values.cast(pa.binary()), lambda some: pc.cast(some, arrow))
    if pa.types.is_floating(values.type):
        return Converted(values.cast(arrow), None)
    if pa.types.is_integer(values.type) and kind.name == "decimal":
        values = values.cast(_ANY_INTEGER)
    return within(convert_or_fault(values, lambda some: pc.cast(some, arrow)), kind)


def _shown(value: pa.Scalar) -> str:
    try:
        return shown(value.as_py())
    except (ValueError, OverflowError):  # a time that Python does not know, or text that is not UTF-8
        if pa.types.is_timestamp(value.type) or pa.types.is_date32(value.type):
            return str(value.cast(pa.int64() if pa.types.is_timestamp(value.type) else pa.int32()))
        return shown(value.as_buffer().to_pybytes())
