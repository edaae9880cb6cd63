"""Columns of any type as int64 codes: equal values have equal codes, in every process, on every machine.

Where values are compared otherwise than by being equal, their codes are in their order. Codes are stored: in the state
of joined streams, beside held tuples, in the ledger's sketches of event ids. So no value's code may ever change.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import binary_parts, plain_array, plain_values
from spark_jobs.columns.hashing import combine, hash_bytes, hash_int64
from spark_jobs.errors import JoinStateError

Int64Array = NDArray[np.int64]

_HALF_BITS = np.uint64(32)


class Codes(NamedTuple):
    """Codes of n values.

    Attributes:
        codes: int64, shape (n,); of an interval [low, high) the low end's.
        exact: whether different values have different codes; if not, they have with probability 1 - 2**-64 a pair.
        highs: int64, shape (n,): codes of the high ends; None where a key is one value.
    """

    codes: Int64Array
    exact: bool
    highs: Int64Array | None = None


def value_codes(values: pa.Array) -> Codes:
    """Codes of the values of one array of plain layout; anything where they are null. O(bytes of the values).

    Whole numbers, booleans, dates and timestamps are their own codes; anything else is hashed.
    """
    kind = values.type
    if pa.types.is_boolean(kind):
        return Codes(values.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int64), True)
    if pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return Codes(plain_values(values, f"i{kind.bit_width // 8}").astype(np.int64, copy=False), True)
    if pa.types.is_decimal128(kind):
        return Codes(combine(*_words(values)), False)
    return Codes(hash_bytes(*binary_parts(values if _is_text(kind) else values.cast(pa.string()))), False)


def spread_codes(columns: Sequence[pa.Array]) -> Int64Array:
    """Hash codes of the values of one or several arrays side by side, int64, shape (n,): any bits of them are random.

    Args:
        columns: arrays of plain layout, at least one, each of shape (n,).
    """
    return reduce(combine, map(_spread, columns))


def _spread(values: pa.Array) -> Int64Array:
    codes, exact, _ = value_codes(values)
    return hash_int64(codes) if exact else codes


def codes_of(tuples: pa.Table, columns: Sequence[str]) -> Codes:
    """Codes of one or several columns; of none, all tuples have one. O(bytes of the values).

    Of one column they are its `value_codes`; several are hashed.

    Raises:
        JoinStateError: a value is null: such tuples have no key.
    """
    parts = [value_codes(_without_nulls(tuples, name)) for name in columns]
    if not parts:
        return Codes(np.zeros(tuples.num_rows, np.int64), True)
    if len(parts) == 1:
        return parts[0]
    return Codes(reduce(combine, [part.codes for part in parts]), False)


def ordered_codes_of(tuples: pa.Table, columns: Sequence[str]) -> Codes:
    """Codes in the order of the values. O(n).

    Args:
        tuples: shape (n,).
        columns: one, or the two ends of an interval: whole numbers, dates, timestamps or decimals of up to 18 digits.

    Raises:
        JoinStateError: a value is null: such tuples have no key.
    """
    low, *high = (_ordered_codes(tuples, column) for column in columns)
    return Codes(low, True, *high)


def _ordered_codes(tuples: pa.Table, name: str) -> Int64Array:
    values = _without_nulls(tuples, name)
    return _words(values)[0] if pa.types.is_decimal128(values.type) else value_codes(values).codes


def bucket_of(tuples: pa.Table, key: Sequence[str], buckets: int) -> NDArray[np.int32]:
    """The bucket of each tuple, from 0 on: the same for equal keys.

    Args:
        tuples: shape (n,).
        key: the columns that make the key, in the order of the definition.
        buckets: how many there are.

    Returns:
        int32, shape (n,). O(bytes of the keys).
    """
    codes = codes_of(tuples, key).codes
    # Hashed twice: a table within the bucket hashes once, and must not find all its keys in one part of itself.
    upper = hash_int64(hash_int64(codes)).view(np.uint64) >> _HALF_BITS
    return ((upper * np.uint64(buckets)) >> _HALF_BITS).astype(np.int32)


def _without_nulls(tuples: pa.Table, name: str) -> pa.Array:
    column = plain_array(tuples[name])
    if column.null_count:
        raise JoinStateError(f"{column.null_count} values of {name} are null: tuples without a key can't be joined")
    return column


def _words(column: pa.Array) -> tuple[Int64Array, Int64Array]:
    """The lower and the upper halves of decimals; int64, shape (n,)."""
    words = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset : 2 * (column.offset + len(column))]
    return np.ascontiguousarray(words[0::2]), np.ascontiguousarray(words[1::2])


def _is_text(kind: pa.DataType) -> bool:
    return (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )
