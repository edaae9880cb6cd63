"""What does not fit between several streams and how they are joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from spark_jobs.definition.join import Join, Punctuated
from spark_jobs.definition.joined_tuple import event_ids
from spark_jobs.definition.matching import match_problems
from spark_jobs.definition.problems import Problem, path_of, shown
from spark_jobs.definition.stream_keys import key_problems, no_column, no_stream

if TYPE_CHECKING:
    from spark_jobs.definition.model import Fact, Lookup
    from spark_jobs.definition.source import Source

_WHOLE_NUMBERS = ("bigint", "int", "smallint", "tinyint")


def join_problems(streams: Mapping[str, Source], join: Join) -> Iterator[Problem]:
    """What does not fit between the streams and how they are joined."""
    yield from key_problems(streams, "join", join.on)
    yield from _match_problems(streams, join)
    yield from _expired_problems(streams, join)
    yield from _punctuation_problems(streams, join)


def _match_problems(streams: Mapping[str, Source], join: Join) -> Iterator[Problem]:
    known_columns = [
        (name, [(column, streams[name].columns[column]) for column in columns if column in streams[name].columns])
        for name, columns in join.on.items()
        if name in streams
    ]
    for text in match_problems(join.match, known_columns):
        yield Problem("join.match", text)
    if join.match != "equal":
        yield from _unequal_problems(join)


def _unequal_problems(join: Join) -> Iterator[Problem]:
    """What means nothing where keys need not be equal."""
    if join.most_facts is not None:
        text = "counts tuples of equal keys, and means nothing with another match. Remove one of them."
        yield Problem("join.most_facts", text)
    if join.punctuations:
        text = "say which keys are done with, which means nothing where keys need not be equal. Remove match or them."
        yield Problem("join.punctuations", text)


def _punctuation_problems(streams: Mapping[str, Source], join: Join) -> Iterator[Problem]:
    lacking = _without_punctuations(streams, join)
    if join.punctuations and len(lacking) > 1:
        text = (
            f"let a tuple go when all other streams have punctuated its key; {', '.join(lacking)} have none, so that "
            "none ever goes. Add punctuations of all streams, or of all but one."
        )
        yield Problem("join.punctuations", text)
    for name, punctuation in join.punctuations.items():
        key = path_of("join", "punctuations", name)
        if name not in streams:
            yield Problem(key, no_stream(name, streams))
        elif punctuation != "unique":
            yield from _column_problems(streams, name, punctuation)


def _without_punctuations(streams: Mapping[str, Source], join: Join, *, but: str = "") -> list[str]:
    """The streams that never say which keys are done with, but for one."""
    return [name for name in streams if name != but and name not in join.punctuations]


def _column_problems(streams: Mapping[str, Source], name: str, punctuation: Punctuated) -> Iterator[Problem]:
    """What is wrong with the column that says when no more of a key come in a stream."""
    allowed = ("boolean",) if punctuation.when is not None else _WHOLE_NUMBERS
    if punctuation.when is not None:
        key = path_of("join", "punctuations", name, "when")
        stream, column = name, punctuation.when
    else:
        key = path_of("join", "punctuations", name, "count")
        stream, column = punctuation.told_by
        if stream == name or not column:
            text = f"{shown(punctuation.count)} is not a column of another stream. Write it as stream.column."
            yield Problem(key, text)
            return
    if stream not in streams:
        yield Problem(key, f"{shown(stream)} {no_stream(stream, streams)}")
        return
    known = streams[stream].columns
    kind = known.get(column)
    if kind is None:
        yield Problem(key, no_column(column, stream, known))
    elif kind.name not in allowed:
        yield Problem(key, f"column {column!r} of {stream} is of type {kind}. Allowed: {', '.join(allowed)}.")


def _expired_problems(streams: Mapping[str, Source], join: Join) -> Iterator[Problem]:
    for name in join.expired if isinstance(join.expired, dict) else ():
        if name not in streams:
            key = path_of("join", "expired", name)
            yield Problem(key, no_stream(name, streams))
    if join.window is None:
        for name in sorted(join.emitting & streams.keys()):
            if lacking := _without_punctuations(streams, join, but=name):
                text = (
                    f"is emit, but without a window no tuple of {name} expires before all other streams have "
                    f"punctuated its key. Add for example window: 2h, or punctuations of {', '.join(lacking)}."
                )
                yield Problem("join.expired", text)


def emission_problems(
    streams: Mapping[str, Source], join: Join, fact: Fact, lookups: Sequence[Lookup]
) -> Iterator[Problem]:
    """What keeps joined tuples from being facts that lack parts.

    Args:
        streams: by name.
        join: how they are joined; sound in itself.
        fact: the table that is loaded.
        lookups: of the pipeline.
    """
    missing = [column for column in event_ids(streams) if column not in fact.columns.values()]
    if join.emitting and missing:
        text = (
            f"leaves out {', '.join(missing)}, but with expired: emit the fact must tell which events it is made of. "
            f"Add for example {missing[0].replace('.', '_')}: {missing[0]}, in a column that takes nulls."
        )
        yield Problem("fact.columns", text)
    for position, lookup in enumerate(lookups):
        for column in lookup.on:
            stream = column.partition(".")[0]
            if stream in join.lacking and isinstance(lookup.on_unmatched, str):
                text = (
                    f"is null where the part of {stream} is missing (expired: emit), and finds nothing then. "
                    "Write on_unmatched: {default: {...}}."
                )
                yield Problem(path_of("lookups", position, "on", column), text)
