"""Columns of any type as int64 codes: equal values have equal codes, in every process, on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.errors import JoinStateError
from spark_jobs.joins.structures.hashing import combine, hash_bytes, hash_int64
from spark_jobs.relation.arrow_buffers import binary_parts, plain_array

Int64Array = NDArray[np.int64]

_HALF_BITS = np.uint64(32)


class Codes(NamedTuple):
    """Codes of n values.

    Attributes:
        codes: int64, shape (n,).
        exact: whether different values have different codes; if not, they have with probability 1 - 2**-64 a pair.
    """

    codes: Int64Array
    exact: bool


def codes_of(tuples: pa.Table, columns: Sequence[str]) -> Codes:
    """Codes of one or several columns, at least one. O(bytes of the values).

    Whole numbers, booleans, dates and timestamps are their own codes; anything else, and several columns, are hashed.

    Raises:
        JoinStateError: a value is null: such tuples have no key.
    """
    parts = [_codes_of_column(tuples, name) for name in columns]
    if len(parts) == 1:
        return parts[0]
    return Codes(reduce(combine, [part.codes for part in parts]), False)


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


def _codes_of_column(tuples: pa.Table, name: str) -> Codes:
    column = plain_array(tuples[name])
    if column.null_count:
        raise JoinStateError(f"{column.null_count} values of {name} are null: tuples without a key can't be joined")
    kind = column.type
    if pa.types.is_boolean(kind):
        return Codes(column.cast(pa.int8()).to_numpy(zero_copy_only=False).astype(np.int64), True)
    if pa.types.is_date32(kind):
        return Codes(column.cast(pa.int32()).to_numpy().astype(np.int64), True)
    if pa.types.is_integer(kind):
        return Codes(column.to_numpy().astype(np.int64, copy=False), True)
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        return Codes(column.cast(pa.int64()).to_numpy(), True)
    if pa.types.is_decimal128(kind):
        words = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset : 2 * (column.offset + len(column))]
        low, high = np.ascontiguousarray(words[0::2]), np.ascontiguousarray(words[1::2])
        return Codes(combine(low, high), False)
    if not (_is_text(kind)):
        column = column.cast(pa.string())
    return Codes(hash_bytes(*binary_parts(column)), False)


def _is_text(kind: pa.DataType) -> bool:
    return (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )
