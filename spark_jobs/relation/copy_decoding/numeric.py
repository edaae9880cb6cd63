"""Numeric fields into Arrow decimals.

A field: int16 count of digits, int16 weight of the first one, uint16 sign, uint16 shown scale, then the digits,
each int16 and to the base 10,000; digit i counts 10,000 to the power of weight - i.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.errors import SchemaMismatchError
from spark_jobs.joins.structures.jit import kernel
from spark_jobs.relation.arrow_buffers import fixed_width_array
from spark_jobs.relation.copy_decoding.column_types import ColumnType, changed_type

_HEADER_BYTES = 8
_NEGATIVE = 0x4000
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF_BITS = np.uint64(32)
_DONE, _NOT_A_NUMBER, _OTHER_TYPE = 0, 1, 2


def numeric_column(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int32],
    kind: ColumnType,
    valid: NDArray[np.bool_] | None,
) -> pa.Array:
    """One column of numeric(precision, scale). O(digits).

    Args:
        data: the stream, uint8.
        starts: int64, shape (n,), where each field starts.
        lengths: int32, shape (n,), how long it is; -1 for null.
        kind: the column's type.
        valid: bool, shape (n,), False for nulls; None where there are none.

    Raises:
        SchemaMismatchError: a value is NaN, which no decimal of Arrow or Spark can be; or the column is not numeric.
    """
    values = np.zeros((len(starts), 2), np.uint64)
    outcome = _decode(data, starts, lengths, kind.arrow.scale, values)
    if outcome == _OTHER_TYPE:
        raise changed_type(kind)
    if outcome == _NOT_A_NUMBER:
        raise SchemaMismatchError(
            "A numeric column holds NaN, which no decimal can hold. "
            "Replace it in the relation (UPDATE), or change the column to double precision."
        )
    return fixed_width_array(kind.arrow, values, valid)


@kernel
def _two_bytes(data: NDArray[np.uint8], position: int) -> int:
    return int(data[position]) * 256 + int(data[position + 1])


@kernel
def _decode(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int32],
    scale: int,
    values: NDArray[np.uint64],
) -> int:
    lowest = -((scale + 3) // 4)  # the power of 10,000 of the last digits that count
    for row in range(len(starts)):
        if lengths[row] < 0:
            continue
        start = starts[row]
        if lengths[row] < _HEADER_BYTES:
            return _OTHER_TYPE
        digits, sign = _two_bytes(data, start), _two_bytes(data, start + 4)
        if lengths[row] != _HEADER_BYTES + 2 * digits:
            return _OTHER_TYPE
        weight = _two_bytes(data, start + 2)
        if weight >= 0x8000:
            weight -= 0x10000
        if sign not in (0, _NEGATIVE):
            return _NOT_A_NUMBER
        low, high = np.uint64(0), np.uint64(0)
        for power in range(weight, lowest - 1, -1):
            index = weight - power
            digit = _two_bytes(data, start + _HEADER_BYTES + 2 * index) if index < digits else 0
            # The digits after the point may end within a group of four: 0.5 at scale 1 is sent as 5000.
            decimals = 4 if power >= 0 else min(4, scale + 4 * (power + 1))
            factor = np.uint64(10**decimals)
            below = low & _LOW_HALF
            carry = below * factor + np.uint64(digit // 10 ** (4 - decimals))
            above = (low >> _HALF_BITS) * factor + (carry >> _HALF_BITS)
            low = (above << _HALF_BITS) | (carry & _LOW_HALF)
            high = high * factor + (above >> _HALF_BITS)
        if sign == _NEGATIVE:
            low, high = ~low + np.uint64(1), ~high + np.uint64(low == 0)
        values[row, 0], values[row, 1] = low, high
    return _DONE
