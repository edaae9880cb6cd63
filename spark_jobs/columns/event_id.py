"""Event ids outside the fact table: their canonical text, their hash code, and the way back to values.

The canonical text is a JSON array of the id's values in the order of the pipeline's event id, ASCII only and
without spaces: `[17,"A-3"]`. Equal ids have equal texts: uuids are in lower case, decimals without trailing zeros.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import binary_array, binary_parts, plain_array
from spark_jobs.columns.copy_encoding.column_encoder import PostgresType
from spark_jobs.columns.json_text import ascii_json_strings, decimal_texts, joined, json_values
from spark_jobs.columns.uuid_text import UUID_CHARACTERS, parse_uuids, uuid_characters
from spark_jobs.columns.value_codes import spread_codes

Int64Array = NDArray[np.int64]

# PostgreSQL keeps keys up to about 2,700 bytes in an index.
MOST_CHARACTERS = 2_000
_ASCII_PER_BYTE = 6  # "\u00ff": the longest that a byte of a string gets in a canonical text


class IdColumn(Protocol):
    """A column of an event id."""

    @property
    def source(self) -> str:
        """The stream tuple's column that has its values."""

    @property
    def source_type(self) -> pa.DataType:
        """Arrow type of that column."""

    @property
    def type(self) -> PostgresType:
        """Its type in the fact table."""


def event_id_texts(tuples: pa.Table, key: Sequence[IdColumn]) -> pa.Array:
    """Canonical text of each tuple's event id; null where a part of it is null.

    Args:
        tuples: shape (n,), with the source columns of the key.
        key: the columns of the event id, in its order.

    Returns:
        large_string array, shape (n,). O(n), a few million a second where ids are integers or plain ASCII.
    """
    parts: list[str | pa.Array] = []
    for column in key:
        parts += [",", _element_texts(plain_array(tuples[column.source]), column)]
    return joined("[", *parts[1:], "]")


def event_hashes(tuples: pa.Table, key: Sequence[IdColumn]) -> Int64Array:
    """Hash code of each tuple's event id, int64, shape (n,); the same in every process, arbitrary for null ids.

    Equal ids have equal codes. O(n), a few ns a tuple for integers, dates and timestamps.
    """
    return spread_codes([_canonical(plain_array(tuples[column.source]), column) for column in key])


def first_of_each(hashes: Int64Array, texts: Callable[[Int64Array], pa.Array]) -> NDArray[np.bool_]:
    """True for the first tuple of each event id, bool, shape (n,). O(n log n), some 0.1 us a tuple.

    Args:
        hashes: codes of the tuples' event ids, shape (n,).
        texts: gives the canonical texts of the event ids of some tuples, by their numbers: two ids may share a code.
    """
    first = np.zeros(len(hashes), np.bool_)
    first[np.unique(hashes, return_index=True)[1]] = True
    if first.all():
        return first
    alike = np.flatnonzero(np.isin(hashes, hashes[~first]))
    ids = texts(alike).dictionary_encode().indices.to_numpy()
    first[alike[np.unique(ids, return_index=True)[1]]] = True
    return first


def may_be_too_long(tuples: pa.Table, key: Sequence[IdColumn]) -> bool:
    """Whether a canonical text could exceed `MOST_CHARACTERS`: quick, and hardly ever true."""
    longest = 0
    for column in key:
        values = plain_array(tuples[column.source])
        if len(values) and (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
            longest += int(np.diff(binary_parts(values)[0]).max()) * _ASCII_PER_BYTE
        else:
            longest += 64  # no number and no timestamp has a longer text
    return longest > MOST_CHARACTERS


def parse_event_ids(texts: Sequence[str], key: Sequence[IdColumn]) -> tuple[pa.Table, Int64Array]:
    """Read canonical texts back into values.

    Args:
        texts: canonical texts, or texts that stand for unusable ids.
        key: the columns of the event id, in its order.

    Returns:
        the values, shape (m,), in columns named as the key's source columns with their arrow types, and the
        numbers of the texts that they come from, int64, shape (m,). A text that can't be an id of this key, for
        example since the definition has changed, is left out: no fact can have it.
    """
    if len(key) == 1 and pa.types.is_integer(key[0].source_type):
        try:  # the usual case, many times faster
            values = pc.utf8_slice_codeunits(pa.array(texts, pa.string()), 1, -1).cast(key[0].source_type)
        except pa.ArrowInvalid:
            pass  # not all of them are integers
        else:
            return pa.table({key[0].source: values}), np.arange(len(texts))
    ids = json.loads(f"[{','.join(texts)}]", parse_float=Decimal)
    try:
        columns = [_parse_column([part[k] for part in ids], column) for k, column in enumerate(key)]
        numbers = np.arange(len(ids))
    except (ValueError, TypeError, LookupError, OverflowError, ArithmeticError, pa.ArrowException):
        numbers = np.array([row for row, part in enumerate(ids) if _is_readable(part, key)], np.int64)
        columns = [_parse_column([ids[row][k] for row in numbers], column) for k, column in enumerate(key)]
    return pa.table(columns, names=[column.source for column in key]), numbers


def _is_readable(values: Any, key: Sequence[IdColumn]) -> bool:
    if not isinstance(values, list) or len(values) != len(key):
        return False
    try:
        for value, column in zip(values, key, strict=True):
            _parse_column([value], column)
    except (ValueError, TypeError, OverflowError, ArithmeticError, pa.ArrowException):
        return False
    return True


def _element_texts(values: pa.Array, column: IdColumn) -> pa.Array:
    canonical = _canonical(values, column)
    if pa.types.is_decimal(values.type):
        return canonical
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return ascii_json_strings(canonical)
    return json_values(values)


def _canonical(values: pa.Array, column: IdColumn) -> pa.Array:
    """Values as only equal ones look alike: uuids in lower case, decimals as texts; all others are so already."""
    if column.type.name == "uuid":
        return _canonical_uuids(values)
    return _shortest_decimals(values) if pa.types.is_decimal(values.type) else values


def _canonical_uuids(values: pa.Array) -> pa.Array:
    """Readable uuids in lower case with hyphens; other strings as they are."""
    parsed, readable = parse_uuids(values)
    offsets = np.arange(len(parsed) + 1, dtype=np.int32) * UUID_CHARACTERS
    canonical = binary_array(offsets, uuid_characters(parsed), kind=pa.string())
    return pc.if_else(pa.array(readable), canonical.cast(values.type), values)


def _shortest_decimals(values: pa.Array) -> pa.Array:
    texts = decimal_texts(values)
    if values.type.scale <= 0:
        return texts
    return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")


def _parse_column(values: list[Any], column: IdColumn) -> pa.Array:
    """Values of canonical texts as an arrow array of the column's source type; raises where one is of another kind."""
    kind = column.source_type
    if pa.types.is_date(kind):
        return pa.array(np.array(_all(str, values), "datetime64[D]").astype(np.int64), pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        moments = np.array([value.removesuffix("Z") for value in _all(str, values)], "datetime64[us]")
        return pa.array(moments.astype(np.int64)).cast(kind)
    if pa.types.is_decimal(kind):
        return pa.array([Decimal(value) for value in _all((int, Decimal), values)], kind)
    if pa.types.is_boolean(kind):
        return pa.array(_all(bool, values), kind)
    if pa.types.is_integer(kind):
        return pa.array(_all(int, values), kind)
    texts = [value.encode("utf-8", "surrogateescape") for value in _all(str, values)]
    return pa.array(texts, pa.binary()).view(pa.string()).cast(kind)


def _all(kinds: Any, values: list[Any]) -> list[Any]:
    for value in values:
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            raise TypeError(f"{value!r} is not {kinds}")
    return values
