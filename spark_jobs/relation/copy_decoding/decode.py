"""Decodes the result of COPY ... TO STDOUT (FORMAT binary)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.joins.structures.jit import read_only
from spark_jobs.relation.copy_decoding.column_types import ColumnType, changed_type
from spark_jobs.relation.copy_decoding.field_positions import FieldPositions, as_records, locate_fields
from spark_jobs.relation.copy_decoding.fixed_width import fixed_width_column, gathered
from spark_jobs.relation.copy_decoding.numeric import numeric_column
from spark_jobs.relation.copy_decoding.text import text_column


def decode_copy(content: bytes | memoryview, types: Sequence[ColumnType]) -> list[pa.Array]:
    """Decode a whole stream.

    Columns of fixed width without nulls are taken as they lie, with their bytes swapped; anything else is found field
    by field first.

    Args:
        content: the stream, from its signature to its trailer.
        types: the type of each of its c columns.

    Returns:
        c arrays, each of shape (n,). O(bytes).

    Raises:
        SchemaMismatchError: the stream is not of these columns, or holds a value that Arrow can't.
    """
    data = read_only(np.frombuffer(content, np.uint8))
    fixed = [kind.sent_as for kind in types if kind.sent_as is not None]
    if len(fixed) == len(types):
        records = as_records(data, fixed)
        if records is not None:
            return [fixed_width_column(records[f"v{i}"], kind, None) for i, kind in enumerate(types)]
    positions = locate_fields(data, len(types))
    return [_column(data, positions, i, kind) for i, kind in enumerate(types)]


def _column(data: NDArray[np.uint8], positions: FieldPositions, index: int, kind: ColumnType) -> pa.Array:
    starts, lengths = positions.starts[index], positions.lengths[index]
    present = lengths >= 0
    valid = None if present.all() else present
    if kind.postgres == "numeric":
        return numeric_column(data, starts, lengths, kind, valid)
    if kind.sent_as is None:
        return text_column(data, starts, lengths, valid)
    if (lengths[present] != kind.sent_as.itemsize).any():
        raise changed_type(kind)
    if valid is not None:
        starts = np.where(present, starts, 0)  # any readable place will do: nobody sees the value
    return fixed_width_column(gathered(data, starts, kind.sent_as), kind, valid)
