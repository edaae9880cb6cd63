"""Values of a stream that a key column of R can hold: integers of the stream may be larger than those of R."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.relation.arrow_buffers import single_array
from spark_jobs.relation.key_values import key_values
from spark_jobs.relation.relation_spec import KeyColumn

_BITS = {"int2": 16, "int4": 32}


def possible_values(values: pa.Array | pa.ChunkedArray, column: KeyColumn) -> NDArray[np.bool_]:
    """Where R's column could hold an equal value, bool, shape (n,); never one that equals null.

    Args:
        values: of the stream, shape (n,), of a type that the column's kind accepts.
        column: the key column.
    """
    _, valid = key_values(values, column.kind)
    fits = in_range(values, column)
    return valid if fits is None else valid & fits


def in_range(values: pa.Array | pa.ChunkedArray, column: KeyColumn) -> NDArray[np.bool_] | None:
    """Where R's column is wide enough for integers, bool, shape (n,); None where it is for all of their type."""
    bits = _BITS.get(column.type.postgres)
    if bits is None or values.type.bit_width <= bits:
        return None
    numbers = single_array(values).fill_null(0).to_numpy()
    return (numbers >= -(1 << bits - 1)) & (numbers < 1 << bits - 1)
