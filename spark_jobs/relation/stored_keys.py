"""Join keys as Arrow columns that can be stored, and encoded again when they are read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_jobs.relation.key_kinds import KeyKind
from spark_jobs.relation.key_values import KeyValues
from spark_jobs.relation.keys import KeyColumns
from spark_jobs.relation.uuid_text import UUID_BYTES


def stored_keys(keys: KeyColumns) -> list[pa.Array]:
    """The columns of valid keys, shape (n,) each, of which `KeyColumns.encode` makes the same keys. O(bytes)."""
    return [_array(values, kind) for values, kind in zip(keys.values(), keys.kinds, strict=True)]


def _array(values: KeyValues, kind: KeyKind) -> pa.Array:
    if isinstance(values, pa.BinaryArray):
        return values.view(pa.string())
    if kind is KeyKind.UUID:
        content = np.ascontiguousarray(values)
        return pa.Array.from_buffers(pa.binary(UUID_BYTES), len(content), [None, pa.py_buffer(content)])
    numbers = pa.array(values, pa.int64())
    return numbers.cast(pa.int32()).view(pa.date32()) if kind is KeyKind.DATE else numbers
