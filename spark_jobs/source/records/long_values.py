"""Texts and bytes that are too long, in arrow arrays whose values stand in each row, or once in a dictionary."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.source.records.decoded import KEPT_OF_TOO_LONG, LONGEST_RECORD, told_length
from spark_jobs.source.records.typed_values import is_any_binary, is_any_text, plain


def holds_bytes(kind: pa.DataType) -> bool:
    """Whether values are texts or bytes of any number, perhaps in a dictionary."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return is_any_text(kind) or is_any_binary(kind)


def lengths(values: pa.Array) -> NDArray[np.int64]:
    """Bytes of each value, int64, shape (n,); of null 0. O(n + dictionary).

    Args:
        values: of a type that `holds_bytes`, shape (n,).
    """
    found = pc.binary_length(_with_offsets(_stored(values)))
    if pa.types.is_dictionary(values.type):
        found = found.take(values.indices)
    return pc.fill_null(found, 0).to_numpy(zero_copy_only=False).astype(np.int64)


def too_long(values: pa.Array) -> dict[int, str]:
    """Row of each value that is too long -> how long it is, and its digest. O(1) where all of them together are not.

    Args:
        values: of any type, shape (n,).
    """
    if not holds_bytes(values.type) or _stored(values).nbytes <= LONGEST_RECORD:
        return {}
    found = lengths(values)
    rows = np.flatnonzero(found > LONGEST_RECORD).tolist()
    places = _places(values, rows)
    digests = {place: hashlib.sha256(_content(values, place)).hexdigest() for place in set(places)}
    return {row: told_length(int(found[row]), digests[place]) for row, place in zip(rows, places, strict=True)}


def without(values: pa.Array, rows: Collection[int]) -> pa.Array:
    """The same values, null in these rows."""
    if not rows:
        return values
    masked = _mask(values, rows)
    if not pa.types.is_dictionary(values.type):
        return pc.if_else(masked, None, values)
    return pa.DictionaryArray.from_arrays(pc.if_else(masked, None, values.indices), values.dictionary)


def beginnings(values: pa.Array, rows: Collection[int]) -> pa.Array:
    """The same values, each in its row; in these rows only what is kept of what is too long."""
    rest = plain(without(values, rows))
    if not rows:
        return rest
    kept = [bytes(_content(values, place)[:KEPT_OF_TOO_LONG]) for place in _places(values, sorted(rows))]
    rest = _with_offsets(rest)
    rest = rest.cast(
        pa.large_binary() if pa.types.is_large_string(rest.type) or pa.types.is_large_binary(rest.type) else pa.binary()
    )
    return pc.replace_with_mask(rest, _mask(values, rows), pa.array(kept, rest.type))


def _stored(values: pa.Array) -> pa.Array:
    return values.dictionary if pa.types.is_dictionary(values.type) else values


def _places(values: pa.Array, rows: Iterable[int]) -> list[int]:
    """Where the values of rows are stored."""
    return [values.indices[row].as_py() for row in rows] if pa.types.is_dictionary(values.type) else list(rows)


def _content(values: pa.Array, place: int) -> memoryview:
    return memoryview(_stored(values)[place].as_buffer())


def _with_offsets(values: pa.Array) -> pa.Array:
    """Views as what has offsets, which functions take; all others as they are."""
    is_view = pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type)
    return values.cast(pa.large_binary()) if is_view else values


def _mask(values: pa.Array, rows: Collection[int]) -> pa.Array:
    masked = np.zeros(len(values), np.bool_)
    masked[list(rows)] = True
    return pa.array(masked)
