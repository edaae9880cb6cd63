"""Composite keys as byte strings that compare as the keys do, column by column ("memcomparable"), and back.

Numbers and dates take 8 bytes, big-endian with the sign flipped; UUIDs their 16 bytes; text its UTF-8 bytes and a
zero byte, which no text of PostgreSQL contains.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.joins.structures.jit import kernel
from spark_jobs.relation.arrow_buffers import binary_array, binary_parts
from spark_jobs.relation.key_kinds import KeyKind
from spark_jobs.relation.key_values import KeyValues
from spark_jobs.relation.uuid_text import UUID_BYTES

_NUMBER_BYTES = 8
_SIGN = np.uint64(1 << 63)


def encode_keys(columns: Sequence[KeyValues], kinds: Sequence[KeyKind]) -> pa.BinaryArray:
    """Join key columns, each shape (n,), into one byte string per key. O(bytes)."""
    count = len(columns[0])
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(sum(_widths(values, kind) for values, kind in zip(columns, kinds, strict=True)), out=offsets[1:])
    encoded = np.zeros(offsets[-1], np.uint8)
    position = offsets[:-1].astype(np.int64)
    for values, kind in zip(columns, kinds, strict=True):
        if kind.is_text:
            _put_text(*binary_parts(values), encoded, position)
        else:
            content = values if kind is KeyKind.UUID else _number_bytes(values)
            encoded[position[:, None] + np.arange(content.shape[1])] = content
        position += _widths(values, kind)
    return binary_array(offsets, encoded)


def decode_keys(encoded: pa.BinaryArray, kinds: Sequence[KeyKind]) -> list[KeyValues]:
    """The key columns that `encode_keys` has joined. O(bytes)."""
    offsets, data = binary_parts(encoded)
    position = offsets[:-1].astype(np.int64)
    columns: list[KeyValues] = []
    for kind in kinds:
        if kind.is_text:
            values: KeyValues = _take_text(data, position)
        else:
            width = UUID_BYTES if kind is KeyKind.UUID else _NUMBER_BYTES
            content = data[position[:, None] + np.arange(width)]
            values = content if kind is KeyKind.UUID else _numbers(content)
        columns.append(values)
        position += _widths(values, kind)
    return columns


def _widths(values: KeyValues, kind: KeyKind) -> NDArray[np.int32] | int:
    if kind.is_text:
        return np.diff(binary_parts(values)[0]) + np.int32(1)
    return np.full(len(values), UUID_BYTES if kind is KeyKind.UUID else _NUMBER_BYTES, np.int32)


def _number_bytes(values: NDArray[np.int64]) -> NDArray[np.uint8]:
    flipped = (values.view(np.uint64) ^ _SIGN).astype(">u8")
    return flipped.view(np.uint8).reshape(len(values), _NUMBER_BYTES)


def _numbers(content: NDArray[np.uint8]) -> NDArray[np.int64]:
    flipped = np.ascontiguousarray(content).reshape(-1).view(">u8").astype(np.uint64)
    return (flipped ^ _SIGN).view(np.int64)


def _take_text(data: NDArray[np.uint8], position: NDArray[np.int64]) -> pa.BinaryArray:
    offsets = np.zeros(len(position) + 1, np.int32)
    _text_ends(data, position, offsets)
    content = np.empty(offsets[-1], np.uint8)
    _copy_text(data, position, offsets, content)
    return binary_array(offsets, content)


@kernel
def _put_text(
    offsets: NDArray[np.int32], data: NDArray[np.uint8], encoded: NDArray[np.uint8], position: NDArray[np.int64]
) -> None:
    for row in range(len(position)):
        start = offsets[row]
        for index in range(offsets[row + 1] - start):
            encoded[position[row] + index] = data[start + index]


@kernel
def _text_ends(data: NDArray[np.uint8], position: NDArray[np.int64], offsets: NDArray[np.int32]) -> None:
    for row in range(len(position)):
        end = position[row]
        while data[end] != 0:
            end += 1
        offsets[row + 1] = offsets[row] + (end - position[row])


@kernel
def _copy_text(
    data: NDArray[np.uint8], position: NDArray[np.int64], offsets: NDArray[np.int32], content: NDArray[np.uint8]
) -> None:
    for row in range(len(position)):
        for index in range(offsets[row + 1] - offsets[row]):
            content[offsets[row] + index] = data[position[row] + index]
