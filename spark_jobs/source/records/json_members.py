"""JSON records, one by one: what a record says, or what is wrong with it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from spark_jobs.columns.copy_encoding.column_encoder import shown
from spark_jobs.definition.ddl import StreamType
from spark_jobs.source.records.decoded import Decoded, MalformedRecordError, arrow_schema, as_text, complaint
from spark_jobs.source.records.texts import from_texts

MOST_LEVELS = 100
"""Levels of objects and arrays within each other that a record may have."""

_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"?|([\[{])|([\]}])', re.DOTALL)
_NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


class _Object(list):
    """An object's members, as pairs of name and value."""

    __slots__ = ()


def _refuse_constant(word: str) -> None:
    raise MalformedRecordError(f"malformed: not JSON: {word}, which is no number there")


class _Nested(str):
    """An object or an array as it is written."""

    __slots__ = ()


# The members of an object as they are written.
_WRITTEN = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW = msgspec.json.Decoder(msgspec.Raw)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

_WHOLE = frozenset({_Number})
_TAKEN: dict[str, frozenset[type]] = {
    "bigint": _WHOLE, "int": _WHOLE, "smallint": _WHOLE, "tinyint": _WHOLE,
    "float": frozenset({_Number, str}), "double": frozenset({_Number, str}), "decimal": frozenset({_Number, str}),
    "boolean": frozenset({bool}), "string": frozenset({str, _Nested}),
    "date": frozenset({str}), "timestamp": frozenset({str}), "binary": frozenset({str}),
}  # fmt: skip

_DECODER = json.JSONDecoder(
    object_pairs_hook=_Object, parse_int=_Number, parse_float=_Number, parse_constant=_refuse_constant
)


def decode_each(records: pa.Array, columns: Mapping[str, StreamType]) -> Decoded:
    """The tuples of JSON records; some ten microseconds each.

    Args:
        records: binary array without nulls, shape (n,).
        columns: the source's schema.
    """
    fields: list[Mapping[str, Any]] = []
    reasons: list[str | None] = []
    for record in records.to_pylist():
        try:
            fields.append(_members(as_text(record), columns))
            reasons.append(None)
        except MalformedRecordError as error:
            fields.append({})
            reasons.append(str(error))
    arrays = [_column(name, kind, fields, reasons) for name, kind in columns.items()]
    malformed = pa.array([reason is not None for reason in reasons], pa.bool_())
    tuples = pa.Table.from_arrays(
        [pa.compute.if_else(malformed, None, values) for values in arrays], schema=arrow_schema(columns)
    )
    return Decoded(tuples, pa.array(reasons, pa.string()))


def _column(name: str, kind: StreamType, fields: Sequence[Mapping[str, Any]], reasons: list[str | None]) -> pa.Array:
    """The values of one column; writes down the reason of each record that has none so far."""
    texts: list[str | None] = []
    for number, members in enumerate(fields):
        token = members.get(name)
        text = None if token is None else _text(token, kind.name)
        if text is None and token is not None:
            reasons[number] = reasons[number] or complaint(name, _shown(token), kind)
        texts.append(text)
    values, faults = from_texts(pa.array(texts, pa.string()), kind)
    for number in [] if faults is None else faults.nonzero()[0].tolist():
        reasons[number] = reasons[number] or complaint(name, _shown(fields[number][name]), kind)
    return values


def _members(text: str, columns: Mapping[str, StreamType]) -> Mapping[str, Any]:
    """The members of a record that are columns; numbers and nested values as they are written.

    Raises:
        MalformedRecordError: the record is no JSON object, or has a column twice.
    """
    if text.count("{") + text.count("[") > MOST_LEVELS:
        _check_levels(text)
    try:
        pairs = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise MalformedRecordError(f"malformed: not JSON: {error.msg} at character {error.pos}") from None
    if _SURROGATE.search(text):
        try:
            _RAW.decode(text)
        except msgspec.DecodeError:
            raise MalformedRecordError("malformed: not JSON: half a surrogate pair") from None
    if type(pairs) is not _Object:
        raise MalformedRecordError("malformed: not a JSON object")
    members: dict[str, Any] = {}
    nested = False
    for name, value in pairs:
        if name in columns:
            if name in members:
                raise MalformedRecordError(f"malformed: {name} appears twice")
            members[name] = value
            nested |= isinstance(value, list) and columns[name].name == "string"
    return _with_nested_texts(text, members) if nested else members


def _with_nested_texts(text: str, members: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same members, objects and arrays as the JSON text that they are written in."""
    written = _WRITTEN.decode(text)
    return {
        name: _Nested(bytes(written[name]).decode()) if isinstance(value, list) else value
        for name, value in members.items()
    }


def _check_levels(text: str) -> None:
    level = 0
    for match in _BRACKETS.finditer(text):
        level += (match[1] is not None) - (match[2] is not None)
        if level > MOST_LEVELS:
            raise MalformedRecordError(f"malformed: nested more than {MOST_LEVELS} levels deep")


def _text(token: Any, kind: str) -> str | None:
    """The text of a value, for the converters of texts; None where the type takes no such value."""
    if type(token) not in _TAKEN[kind]:
        return None
    if type(token) is bool:
        return "true" if token else "false"
    if kind in {"float", "double"} and type(token) is str and token not in _NOT_FINITE:
        return None
    return token


def _shown(token: Any) -> str:
    if isinstance(token, bool):
        return str(token).lower()
    if isinstance(token, list):
        return "an object" if type(token) is _Object else "an array"
    return str(token)[:60] if isinstance(token, _Number) else shown(token)
