"""The columns by which tuples of several streams belong together: the key `on`, and whether the streams have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from spark_jobs.definition.ddl import StreamType
from spark_jobs.definition.fields import Word
from spark_jobs.definition.problems import Problem, path_of, shown, suggestion

if TYPE_CHECKING:
    from spark_jobs.definition import Source

_KEY_TYPES = ("bigint", "int", "smallint", "tinyint", "string", "date", "timestamp", "decimal", "boolean")
_COLUMNS = WithJsonSchema(
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
)


def _columns(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Keys = Annotated[
    dict[Word, Annotated[tuple[Word, ...], BeforeValidator(_columns), Field(min_length=1), _COLUMNS]],
    Field(min_length=2, examples=["on: {orders: order_id, payments: order_id}"]),
]
"""Stream -> its columns that belong to the other streams'; a single one may be written without a list."""


def key_problems(streams: Mapping[str, Source], part: str, on: Mapping[str, tuple[str, ...]]) -> Iterator[Problem]:
    """What does not fit between the streams and their keys.

    Args:
        streams: by name.
        part: the part of the definition that has the key `on`.
        on: the columns of each stream.
    """
    for name in streams:
        if name not in on:
            yield Problem(path_of(part, "on"), f"says nothing of {name}. Add {_key_of(streams[name], name, on)}.")
    if len({len(columns) for columns in on.values()}) > 1:
        yield Problem(path_of(part, "on"), "names more columns of one stream than of another; name as many of each.")
    yield from _type_problems(streams, part, on)
    yield from _removal_problems(streams)


def _type_problems(streams: Mapping[str, Source], part: str, on: Mapping[str, tuple[str, ...]]) -> Iterator[Problem]:
    kinds: dict[int, tuple[str, StreamType]] = {}
    for name, columns in on.items():
        key = path_of(part, "on", name)
        if name not in streams:
            yield Problem(key, no_stream(name, streams))
            continue
        known = streams[name].columns
        for position, column in enumerate(columns):
            kind = known.get(column)
            if kind is None:
                yield Problem(key, no_column(column, name, known))
            elif kind.name not in _KEY_TYPES:
                allowed = f"Allowed: {', '.join(_KEY_TYPES)}."
                yield Problem(key, f"column {column!r} is of type {kind}, which can't be a join key. {allowed}")
            else:
                first_name, first = kinds.setdefault(position, (f"{name}.{column}", kind))
                if first != kind:
                    yield Problem(
                        key, f"column {column!r} is of type {kind}, {first_name} of type {first}: make them one."
                    )


def _key_of(source: Source, name: str, on: Mapping[str, tuple[str, ...]]) -> str:
    """What may be added to `on` for a stream: columns that are called as those of another one."""
    for columns in on.values():
        if set(columns) <= source.columns.keys():
            listed = ", ".join(columns)
            return f"for example {name}: {listed if len(columns) == 1 else f'[{listed}]'}"
    return "its columns that must match"


def read_alike(streams: Mapping[str, Source]) -> dict[str, list[str]]:
    """What is read by several streams, each for itself, and which these are: a folder, or a topic."""
    readers: dict[str, list[str]] = {}
    for name, source in streams.items():
        readers.setdefault(source.kind.identity(source), []).append(name)
    return {read: names for read, names in readers.items() if len(names) > 1}


def _removal_problems(streams: Mapping[str, Source]) -> Iterator[Problem]:
    """Streams that would take files from each other."""
    for folder, names in read_alike(streams).items():
        for name in names:
            if streams[name].after_load != "keep":
                text = (
                    f"{' and '.join(names)} read the same files, in {folder}; {name} would take them away before the "
                    "others have read them. Remove after_load, or let the files land in a folder of each stream."
                )
                yield Problem(path_of("streams", name, "after_load"), text)


def no_stream(name: str, streams: Mapping[str, Source]) -> str:
    """What is said of a name that is no stream's."""
    return f"is not a stream.{suggestion(name, streams)} Streams: {', '.join(streams)}."


def no_column(column: str, stream: str, known: Mapping[str, StreamType]) -> str:
    """What is said of a name that is no column's of a stream."""
    text = f"{shown(column)} is not a column of streams.{stream}.schema.{suggestion(column, known)}"
    return f"{text} Columns: {', '.join(known)}."
