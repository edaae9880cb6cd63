"""Reads landed CSV lines as Spark's reader does, without Spark: one line is one record."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spark_jobs.definition.ddl import StreamType
from spark_jobs.proof import values
from spark_jobs.proof.json_records import Event
from spark_jobs.proof.values import UnreadableValueError

_BLANK = bytes(range(33))
_WHOLE = re.compile(r"[+-]?[0-9]+")
_FLOATING = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_INFINITE = {"Inf": float("inf"), "-Inf": float("-inf")}


@dataclass(frozen=True)
class CsvFormat:
    """Spark's reader options for CSV; all but `header` are one character or a text to be taken for null."""

    header: bool = False
    sep: str = ","
    quote: str = '"'
    escape: str = "\\"
    null: str = ""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> CsvFormat:
        """The format that a pipeline's `source.options` describe."""
        plain = cls()
        return cls(
            header=options.get("header") == "true",
            sep=options.get("sep", plain.sep),
            quote=options.get("quote", plain.quote),
            escape=options.get("escape", plain.escape),
            null=options.get("nullValue", plain.null),
        )


def csv_events(line: bytes, columns: Mapping[str, StreamType], layout: CsvFormat) -> Iterator[Event]:
    """The event of one line, which is none if it is blank.

    Text values are bytes: whether they are UTF-8 is not asked here.
    """
    if not line.strip(_BLANK):
        return
    tokens = split(line.decode("latin-1"), layout)
    readable = len(tokens) == len(columns)
    read: list[Any] = []
    for position, kind in enumerate(columns.values()):
        token = tokens[position] if position < len(tokens) else None
        try:
            read.append(None if token is None else _READERS[kind.name](token, kind))
        except UnreadableValueError:
            read.append(None)
            readable = False
    yield Event(read, readable)


def split(line: str, layout: CsvFormat) -> list[str | None]:
    """Cut a line into its values; None for null."""
    tokens: list[str | None] = []
    position = 0
    while True:
        if line.startswith(layout.quote, position):
            token, position = _quoted(line, position + 1, layout)
        else:
            end = line.find(layout.sep, position)
            end = len(line) if end < 0 else end
            token, position = line[position:end] or layout.null, end
        tokens.append(None if token == layout.null else token)
        if position >= len(line):
            return tokens
        position += 1
        if position == len(line):
            return [*tokens, None]


def _quoted(line: str, start: int, layout: CsvFormat) -> tuple[str, int]:
    """The value behind an opening quote, and where its delimiter is."""
    content: list[str] = []
    position = start
    while position < len(line):
        pair = line[position : position + 2]
        if layout.escape != layout.quote and pair in {layout.escape + layout.quote, layout.escape * 2}:
            content.append(pair[1])
            position += 2
        elif layout.escape == layout.quote and pair == layout.quote * 2:
            content.append(layout.quote)
            position += 2
        elif line[position] == layout.quote:
            end = position + 1
            while end < len(line) and line[end] <= " " and line[end] != layout.sep:
                end += 1
            if end == len(line) or line[end] == layout.sep:
                return "".join(content), end
            # A quote in the middle: the value was never a quoted one. It lasts until the next delimiter.
            end = line.find(layout.sep, position)
            end = len(line) if end < 0 else end
            token = layout.quote + "".join(content) + line[position:end]
            # Spark's parser takes the outer two off where there is nothing but quotes.
            return token[2:] if not token.strip(layout.quote) else token, end
        else:
            content.append(line[position])
            position += 1
    return "".join(content), position


def _integer(token: str, kind: StreamType) -> int:
    if not _WHOLE.fullmatch(token):
        raise UnreadableValueError(token)
    return values.integer(token, {"bigint": 64, "int": 32, "smallint": 16, "tinyint": 8}[kind.name])


def _floating(token: str, kind: StreamType) -> float:
    if token in _INFINITE:
        return _INFINITE[token]
    number = token.strip(_BLANK.decode())
    if not _FLOATING.fullmatch(number):
        raise UnreadableValueError(token)
    return float(number.rstrip("fFdD"))


def _boolean(token: str, kind: StreamType) -> bool:
    if token.lower() not in {"true", "false"}:
        raise UnreadableValueError(token)
    return token.lower() == "true"


_READERS: dict[str, Callable[[str, StreamType], Any]] = {
    "bigint": _integer, "int": _integer, "smallint": _integer, "tinyint": _integer,
    "float": _floating, "double": _floating, "decimal": values.decimal, "boolean": _boolean,
    "string": lambda token, _: token.encode("latin-1"), "date": lambda token, _: values.date(token),
    "timestamp": lambda token, _: values.timestamp(token),
}  # fmt: skip
