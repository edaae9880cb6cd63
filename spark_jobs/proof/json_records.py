"""Reads landed JSON lines as Spark's reader does with its defaults, without Spark.

That is stricter than Python's reader in some ways (a number is no text, 1.0 is no integer) and looser in
others (single quotes, a number for a text column, anything after the first value of a line).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spark_jobs.definition.ddl import StreamType
from spark_jobs.proof import values
from spark_jobs.proof.values import UnreadableValueError

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(
    r'"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt\']|u[0-9a-fA-F]{4}))*)"'
    r"|'((?:[^'\\\x00-\x1f]|\\(?:[\"\\/bfnrt']|u[0-9a-fA-F]{4}))*)'"
)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|NaN|[+-]?Infinity|[+-]INF")
_WORD = re.compile(r"true|false|null")
_WORDS = {"true": True, "false": False, "null": None}
_WHOLE = re.compile(r"-?[0-9]+")
_BASE64 = re.compile(
    r"(?:[\x00-\x20]*[A-Za-z0-9+/](?:[A-Za-z0-9+/]{3}|[A-Za-z0-9+/]{2}=|[A-Za-z0-9+/]==))*[\x00-\x20]*"
)
_DAYS = re.compile(r"[+-]?[0-9]{1,9}")
_NOT_FINITE = {
    "NaN": "nan",
    "Infinity": "inf", "+Infinity": "inf", "+INF": "inf",
    "-Infinity": "-inf", "-INF": "-inf",
}  # fmt: skip
# Spark reads a date that is none as a number of days; before this one its calendars differ.
_FIRST_PLAIN_DAY = -141_427


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


class _Nested(str):
    """An object or an array as it is written."""

    __slots__ = ()


_decode = json.JSONDecoder(
    object_pairs_hook=list, parse_int=_Number, parse_float=_Number, parse_constant=_Number
).decode


class _NestedValueError(Exception):
    """A column holds an object or an array."""


class Event(NamedTuple):
    """What a record says.

    Attributes:
        values: one for each column; None for null, and for what can't be read.
        readable: whether all of the record could be read.
    """

    values: Sequence[Any]
    readable: bool


def json_events(line: bytes, columns: Mapping[str, StreamType]) -> Iterator[Event]:
    """The events of one line: none of a blank one, several of an array of objects, or else one.

    Args:
        line: without its end.
        columns: the source's schema.
    """
    try:
        text = line.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        yield Event([None] * len(columns), readable=False)
        return
    try:
        pairs = _decode(text)
        fields = dict(pairs)
        # An array at the root, or a key twice: read it step by step instead.
        if len(fields) == len(pairs) and text.lstrip()[0] == "{":
            yield _event(fields, columns)
            return
    except (ValueError, TypeError, RecursionError, _NestedValueError):
        pass
    yield from _lenient_events(text, columns)


def _event(fields: Mapping[str, Any], columns: Mapping[str, StreamType]) -> Event:
    read: list[Any] = []
    readable = True
    for name, kind in columns.items():
        token = fields.get(name)
        if token is None:
            read.append(None)
            continue
        if type(token) is list:
            raise _NestedValueError  # its text is gone
        try:
            read.append(_READERS[kind.name](token, kind))
        except UnreadableValueError:
            read.append(None)
            readable = False
    return Event(read, readable)


def _stepwise_event(fields: list[tuple[str, Any]], columns: Mapping[str, StreamType], *, complete: bool) -> Event:
    """The event of an object in which a key may stand twice: the last one counts, but all must be readable."""
    events = [_event({name: token}, columns) for name, token in fields]
    last = _event(dict(fields), columns)
    return Event(last.values, complete and all(event.readable for event in events))


def _lenient_events(text: str, columns: Mapping[str, StreamType]) -> Iterator[Event]:
    reader = _LenientReader(text)
    start = reader.skip_space(0)
    if start == len(text):
        return
    if text[start] != "[":
        fields, complete = reader.members(start)
        yield _stepwise_event(fields, columns, complete=complete)
        return
    try:
        elements = list(reader.elements(start))
    except (UnreadableValueError, RecursionError):
        yield Event([None] * len(columns), readable=False)
        return
    events = [_stepwise_event(fields, columns, complete=True) for fields in elements]
    readable = all(event.readable for event in events)
    yield from (Event(event.values, readable) for event in events)


class _LenientReader:
    """Takes JSON apart as Spark's parser does with its defaults; positions are offsets in the text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def skip_space(self, position: int) -> int:
        match = _SPACE.match(self._text, position)
        assert match is not None
        return match.end()

    def members(self, position: int) -> tuple[list[tuple[str, Any]], bool]:
        """The members of the object that starts here, up to the first mistake; whether there is none."""
        fields: list[tuple[str, Any]] = []
        try:
            self._object(position, fields)
        except (UnreadableValueError, RecursionError):
            return fields, False
        return fields, True

    def elements(self, position: int) -> Iterator[list[tuple[str, Any]]]:
        """The objects of the array that starts here."""
        position = self.skip_space(position + 1)
        if self._text[position : position + 1] == "]":
            return
        while True:
            fields: list[tuple[str, Any]] = []
            position = self.skip_space(self._object(self.skip_space(position), fields))
            yield fields
            if self._text[position : position + 1] == "]":
                return
            position = self._expect(position, ",")

    def _object(self, position: int, fields: list[tuple[str, Any]]) -> int:
        """Append the members of the object that starts here; the position after its end."""
        position = self.skip_space(self._expect(position, "{"))
        if self._text[position : position + 1] == "}":
            return position + 1
        while True:
            name = self._match(_STRING, self.skip_space(position))
            position = self.skip_space(self._expect(self.skip_space(name.end()), ":"))
            token, position = self._value(position)
            fields.append((_unescape(name), token))
            position = self.skip_space(position)
            if self._text[position : position + 1] == "}":
                return position + 1
            position = self._expect(position, ",")

    def _array(self, position: int) -> int:
        """The position after the array that starts here."""
        position = self.skip_space(self._expect(position, "["))
        if self._text[position : position + 1] == "]":
            return position + 1
        while True:
            _, position = self._value(self.skip_space(position))
            position = self.skip_space(position)
            if self._text[position : position + 1] == "]":
                return position + 1
            position = self._expect(position, ",")

    def _value(self, position: int) -> tuple[Any, int]:
        first = self._text[position : position + 1]
        if first in {"{", "["}:
            end = self._object(position, []) if first == "{" else self._array(position)
            return _Nested(self._text[position:end]), end
        if first in {'"', "'"}:
            match = self._match(_STRING, position)
            return _unescape(match), match.end()
        if first in {"t", "f", "n"}:
            match = self._match(_WORD, position)
            return _WORDS[match[0]], match.end()
        match = self._match(_NUMBER, position)
        return _Number(match[0]), match.end()

    def _expect(self, position: int, character: str) -> int:
        if self._text[position : position + 1] != character:
            raise UnreadableValueError(f"no {character} at {position}")
        return position + 1

    def _match(self, pattern: re.Pattern[str], position: int) -> re.Match[str]:
        match = pattern.match(self._text, position)
        if match is None:
            raise UnreadableValueError(f"no value at {position}")
        return match


def _unescape(match: re.Match[str]) -> str:
    if match[1] is not None and "\\'" not in match[1]:
        return str(json.loads(match[0]))
    content = match[1] if match[1] is not None else match[2]
    # As a double quoted string: its own quotes need a backslash, and single ones none.
    escaped = re.sub(r"""\\.|["']""", lambda part: {"\\'": "'", '"': '\\"'}.get(part[0], part[0]), content, flags=re.S)
    return str(json.loads(f'"{escaped}"'))


def _integer(token: Any, kind: StreamType) -> int:
    if type(token) is not _Number or not _WHOLE.fullmatch(token):
        raise UnreadableValueError(token)
    return values.integer(token, {"bigint": 64, "int": 32, "smallint": 16}[kind.name])


def _tinyint(token: Any, kind: StreamType) -> int:
    if type(token) is not _Number or not _WHOLE.fullmatch(token):
        raise UnreadableValueError(token)
    number = values.integer(token, 16)
    if not -128 <= number <= 255:
        raise UnreadableValueError(token)
    return number - 256 if number > 127 else number  # Spark's parser takes a byte without sign, too


def _floating(token: Any, kind: StreamType) -> float:
    if token in _NOT_FINITE and isinstance(token, str):
        return float(_NOT_FINITE[token])
    if type(token) is not _Number:
        raise UnreadableValueError(token)
    return float(token)


def _decimal(token: Any, kind: StreamType) -> Any:
    if type(token) not in {_Number, str}:
        raise UnreadableValueError(token)
    return values.decimal(token, kind)


def _boolean(token: Any, kind: StreamType) -> bool:
    if not isinstance(token, bool):
        raise UnreadableValueError(token)
    return token


def _string(token: Any, kind: StreamType) -> str:
    if token is True or token is False:
        return "true" if token else "false"
    if token.isascii():
        return str(token)
    # Half a surrogate pair can't be written in UTF-8; Java writes ? for it.
    return str(token.encode("utf-8", "replace").decode())


def _binary(token: Any, kind: StreamType) -> bytes:
    if type(token) is not str:
        raise UnreadableValueError(token)
    if not _BASE64.fullmatch(token):
        raise UnreadableValueError(token)
    return base64.b64decode(token)


def _date(token: Any, kind: StreamType) -> int:
    if type(token) is not str:
        raise UnreadableValueError(token)
    try:
        return values.date(token)
    except UnreadableValueError:
        if _DAYS.fullmatch(token) and int(token) >= _FIRST_PLAIN_DAY:
            return int(token)
        raise


def _timestamp(token: Any, kind: StreamType) -> int:
    if type(token) is _Number and _WHOLE.fullmatch(token):
        return values.timestamp_of_seconds(values.integer(token, 64))
    if type(token) is not str:
        raise UnreadableValueError(token)
    return values.timestamp(token)


_READERS: dict[str, Callable[[Any, StreamType], Any]] = {
    "bigint": _integer, "int": _integer, "smallint": _integer, "tinyint": _tinyint,
    "float": _floating, "double": _floating, "decimal": _decimal, "boolean": _boolean,
    "string": _string, "binary": _binary, "date": _date, "timestamp": _timestamp,
}  # fmt: skip
