"""Join keys of n tuples, of the stream or of R: int64 codes to join by, and the values that the codes stand for.

A key of several columns is encoded as one byte string that compares as the key does, column by column
("memcomparable"). Numbers and dates take 8 bytes, big-endian with the sign flipped; UUIDs their 16 bytes; text its
UTF-8 bytes and a zero byte, which no text of PostgreSQL contains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import binary_array, binary_parts
from spark_jobs.columns.jit import kernel
from spark_jobs.columns.keys.values import KeyKind, KeyValues, key_values
from spark_jobs.columns.uuid_text import UUID_BYTES
from spark_jobs.columns.value_codes import value_codes

CODE_BYTES = 9
"""What each key takes in `codes` and `valid`."""

_NUMBER_BYTES = 8
_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True, eq=False)
class KeyColumns:
    """The join keys of n tuples. Equal keys have equal codes; pickles by its arrays.

    Attributes:
        kinds: kind of each key column.
        codes: int64, shape (n,): the value of a key that is one integer or date (days since 1970), else the code
            of `encoded`: two different keys may then share a code, and `equals` decides.
        encoded: binary, shape (n,): the key as bytes that compare as the key does; None where the codes say it all.
        valid: bool, shape (n,): False where no tuple of R can have the key, because a column of it is null, text
            or a date that PostgreSQL can't hold, or no UUID. Codes of such keys mean nothing.
    """

    kinds: tuple[KeyKind, ...]
    codes: NDArray[np.int64]
    encoded: pa.BinaryArray | None
    valid: NDArray[np.bool_]

    @classmethod
    def encode(cls, columns: Sequence[pa.Array | pa.ChunkedArray], kinds: Sequence[KeyKind]) -> KeyColumns:
        """Encode key columns of the stream or of R. O(bytes); copies nothing of a key that is one text or bigint.

        Args:
            columns: the columns of the key, each of shape (n,), of types that the kinds accept.
            kinds: kind of each of R's key columns.
        """
        converted = [key_values(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        valid = np.logical_and.reduce([part for _, part in converted])
        return cls._of_values([values for values, _ in converted], tuple(kinds), valid)

    @classmethod
    def _of_values(cls, values: list[KeyValues], kinds: tuple[KeyKind, ...], valid: NDArray[np.bool_]) -> KeyColumns:
        if len(kinds) > 1:
            encoded = encode_keys(values, kinds)
        elif kinds[0].is_number:
            return cls(kinds, values[0], None, valid)
        elif kinds[0] is KeyKind.UUID:
            encoded = binary_array(np.arange(len(valid) + 1, dtype=np.int32) * UUID_BYTES, values[0])
        else:
            encoded = values[0]
        return cls(kinds, value_codes(encoded).codes, encoded, valid)

    @classmethod
    def concatenate(cls, parts: Sequence[KeyColumns]) -> KeyColumns:
        """The keys of all parts, one after the other; at least one part, all of the same kinds."""
        first = parts[0]
        if len(parts) == 1:
            return first
        encoded = None if first.encoded is None else pa.concat_arrays([part.encoded for part in parts])
        codes = np.concatenate([part.codes for part in parts])
        return cls(first.kinds, codes, encoded, np.concatenate([part.valid for part in parts]))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, in bytes."""
        return self.codes.nbytes + self.valid.nbytes + (0 if self.encoded is None else self.encoded.nbytes)

    def take(self, indices: NDArray[np.int64]) -> KeyColumns:
        """The keys at these positions, int64 (k,)."""
        encoded = None if self.encoded is None else self.encoded.take(pa.array(indices))
        return KeyColumns(self.kinds, self.codes[indices], encoded, self.valid[indices])

    def equals(
        self, own_indices: NDArray[np.int64], other: KeyColumns, other_indices: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Where two keys are the same key.

        Args:
            own_indices: int64, shape (k,), positions here.
            other: keys of the same kinds.
            other_indices: int64, shape (k,), positions there.

        Returns:
            bool, shape (k,).
        """
        same = self.codes[own_indices] == other.codes[other_indices]
        if self.encoded is None or other.encoded is None or not len(same):
            return same
        own = self.encoded.take(pa.array(own_indices))
        return same & pc.equal(own, other.encoded.take(pa.array(other_indices))).to_numpy(zero_copy_only=False)

    def is_in(self, others: KeyColumns) -> NDArray[np.bool_]:
        """Which keys are among others of the same kinds, bool, shape (n,). O((n + m) log m)."""
        if not len(others):
            return np.zeros(len(self), np.bool_)
        ordered = np.sort(others.codes)
        places = np.minimum(np.searchsorted(ordered, self.codes), len(ordered) - 1)
        found: NDArray[np.bool_] = ordered[places] == self.codes
        if self.encoded is None or others.encoded is None or not found.any():
            return found
        candidates = np.flatnonzero(found)
        same = pc.is_in(self.encoded.take(pa.array(candidates)), value_set=others.encoded)
        found[candidates] = same.to_numpy(zero_copy_only=False)
        return found

    def distinct(self) -> KeyColumns:
        """The valid keys, each once, in any order. O(n log n)."""
        keys = self if self.valid.all() else self.take(np.flatnonzero(self.valid))
        order = np.argsort(keys.codes)
        repeated = np.flatnonzero(keys.codes[order[1:]] == keys.codes[order[:-1]])
        # Keys of the same code follow each other, in any order where they are different keys: then one may stay twice.
        same = keys.equals(order[repeated + 1], keys, order[repeated])
        return keys.take(np.delete(order, repeated[same] + 1))

    @property
    def codes_differ(self) -> bool:
        """Whether no two of these keys, which are distinct, share a code. O(n log n); numbers never do."""
        return self.encoded is None or len(np.unique(self.codes)) == len(self)

    def in_order(self) -> KeyColumns:
        """The keys in ascending order. O(n log n)."""
        if self.encoded is None:
            return self.take(np.argsort(self.codes))
        return self.take(pc.sort_indices(self.encoded).to_numpy().astype(np.int64))

    def values(self) -> list[KeyValues]:
        """The key columns, one array each. O(bytes)."""
        if self.encoded is None:
            return [self.codes]
        if len(self.kinds) > 1:
            return decode_keys(self.encoded, self.kinds)
        if self.kinds[0] is KeyKind.UUID:
            offsets, data = binary_parts(self.encoded)
            return [data[offsets[0] : offsets[-1]].reshape(len(self), UUID_BYTES)]
        return [self.encoded]


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
