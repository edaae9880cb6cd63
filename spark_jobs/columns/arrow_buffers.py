"""Arrow columns as the numpy arrays that lie under them, without copying."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.columns.jit import read_only


def single_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array. O(1) where it has one chunk."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def validity(array: pa.Array) -> NDArray[np.bool_]:
    """Bool, shape (n,): where the array is not null."""
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    return array.is_valid().to_numpy(zero_copy_only=False)


def binary_parts(array: pa.Array) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """The parts of a string or binary array, also a large one. No copy.

    Returns:
        Offsets, int32 or, of a large array, int64 (n + 1,), and bytes, uint8: value i is
        bytes[offsets[i]:offsets[i + 1]]. To be read only.
    """
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    width = np.dtype(np.int64 if large else np.int32)
    _, offsets, data = array.buffers()
    if len(array) == 0:
        return read_only(np.zeros(1, width)), read_only(np.empty(0, np.uint8))
    return (
        read_only(np.frombuffer(offsets, width, len(array) + 1, array.offset * width.itemsize)),
        read_only(np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)),
    )


def binary_array(
    offsets: NDArray[np.int32],
    data: NDArray[np.uint8],
    valid: NDArray[np.bool_] | None = None,
    kind: pa.DataType | None = None,
) -> pa.Array:
    """The string or binary (default) array over these offsets, shape (n + 1,), and bytes; null where not `valid`."""
    buffers = [_bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind or pa.binary(), len(offsets) - 1, buffers)


def fixed_width_array(kind: pa.DataType, values: NDArray, valid: NDArray[np.bool_] | None) -> pa.Array:
    """An array over values, shape (n,) or (n, bytes of one), laid out as the type is; null where not `valid`."""
    return pa.Array.from_buffers(kind, len(values), [_bitmap(valid), pa.py_buffer(values)])


def boolean_array(values: NDArray, valid: NDArray[np.bool_] | None) -> pa.Array:
    """A boolean array, shape (n,); null where not `valid`."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [_bitmap(valid), _bitmap(values)])


def _bitmap(values: NDArray | None) -> pa.Buffer | None:
    return None if values is None else pa.py_buffer(np.packbits(values, bitorder="little"))


def plain_values(values: pa.Array, dtype: str) -> NDArray:
    """The values of a fixed-width array as numpy sees them, shape (n,); anything where they are null. No copy."""
    data = values.buffers()[1]
    if data is None:
        return np.zeros(len(values), dtype)
    return np.frombuffer(data, dtype)[values.offset : values.offset + len(values)]


def plain_type(source: pa.DataType) -> pa.DataType:
    """The type of the values themselves, for arrow types that lay them out in another way."""
    if pa.types.is_dictionary(source):
        return plain_type(source.value_type)
    if pa.types.is_string_view(source):
        return pa.large_string()
    if pa.types.is_binary_view(source):
        return pa.large_binary()
    if pa.types.is_decimal32(source) or pa.types.is_decimal64(source):
        return pa.decimal128(source.precision, source.scale)
    return source


def plain_array(column: pa.ChunkedArray) -> pa.Array:
    """A table's column as one array of plain layout."""
    plain = plain_type(column.type)
    if plain != column.type:
        column = column.cast(plain)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, plain)])
