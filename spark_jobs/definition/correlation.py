"""How several streams become one: the part `correlate` of a definition, and what the joined tuples are like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator

from spark_jobs.definition.ddl import StreamType
from spark_jobs.definition.fates import EXPIRED, EXPIRED_REJECTED, JOINED, Fate
from spark_jobs.definition.fields import Bytes, Duration, Part, Word
from spark_jobs.definition.matching import Match, match_problems, matched_columns
from spark_jobs.definition.problems import Problem, path_of, shown, suggestion

if TYPE_CHECKING:
    from spark_jobs.definition.model import Fact, Lookup
    from spark_jobs.definition.source import Source

COMPLETED_AT = "_completed_at"
"""Column of joined tuples: when the last of their events happened. Their freshness is measured from it."""
JOINED_ID = "_joined_id"
"""Column of joined tuples of which some lack parts (`expired: emit`): the ids of their events as text, `[17,null]`.

It is their key: a primary key takes no nulls.
"""
MOST_STREAMS = 16
# The id of a stream's held tuple, and the name of its file in the ledger, begin with the stream's name and this.
STREAM_SEPARATOR = "/"

_KEY_TYPES = ("bigint", "int", "smallint", "tinyint", "string", "date", "timestamp", "decimal", "boolean")
_WHOLE_NUMBERS = ("bigint", "int", "smallint", "tinyint")


def qualified(stream: str, column: str) -> str:
    """Name of a stream's column in the joined tuple."""
    return f"{stream}.{column}"


class FixedWindow(Part):
    """Windows one after the other, all of one length, from 1970 on: tuples of one window are joined (004 §5.1)."""

    fixed: Duration = Field(examples=["within: {fixed: 1h}"])


_COLUMNS = WithJsonSchema(
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
)


def _columns(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Within = Annotated[
    Annotated[Duration, Tag("<sliding>")] | Annotated[FixedWindow, Tag("<fixed>")],
    Discriminator(lambda value: "<fixed>" if isinstance(value, dict | FixedWindow) else "<sliding>"),
]
"""A mapping is fixed windows; anything else the length of a sliding one."""


Expired = Literal["hold", "reject", "emit"]


class Punctuated(Part):
    """Which column tells that no more tuples of a key come in a stream.

    Attributes:
        when: a boolean column of the stream: the tuple in which it is true is the last of its key.
        count: `stream.column`, a whole number in another stream's tuples: how many of their key come.
    """

    when: Word | None = Field(default=None, examples=["punctuations: {bids: {when: is_last}}"])
    count: Word | None = Field(default=None, examples=["punctuations: {items: {count: orders.n_items}}"])

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Punctuated:
        if (self.when is None) == (self.count is None):
            raise ValueError("Write when: a boolean column, or count: a column of another stream; one of both.")
        return self

    @property
    def told_by(self) -> tuple[str, str]:
        """Of `count`, the other stream and its column."""
        assert self.count is not None
        stream, _, column = self.count.partition(".")
        return stream, column


def _rule(value: Any) -> Any:
    if value != "unique":
        allowed = "unique, {when: a boolean column}, {count: stream.column}"
        raise ValueError(f"{shown(value)} is not allowed.{suggestion(value, ['unique'])} Allowed: {allowed}.")
    return value


Punctuation = Annotated[
    Annotated[Literal["unique"], BeforeValidator(_rule), Tag("<rule>")] | Annotated[Punctuated, Tag("<column>")],
    Discriminator(lambda value: "<column>" if isinstance(value, dict | Punctuated) else "<rule>"),
]
"""What tells that no more tuples of a key come (001 §2.2); `unique`: each tuple does, of its own."""


class Correlate(Part):
    """When tuples of the streams belong together, and what becomes of those that find no partner.

    Attributes:
        on: stream -> its columns that must match the other streams' (one name, or a list).
        match: how: `equal`; or `overlap`, of the last two columns, [from, to); or the last one at most a band apart.
            Those before are equal. Of three streams and more each two must match.
        within: how long a tuple is valid from its event time on: tuples are joined that are valid at a common time
            (004 §5.1). Or fixed windows. None: for ever.
        emit: `complete`: a fact when all parts are there. `accumulate`: one fact for each key, made by the first
            required part; later parts fill in their columns. The fact table and the held tuples are its state:
            within, expired, lateness, idle_after, algorithm and memory mean nothing to it.
        required: with `accumulate`: the streams any of which makes the fact; by default the first one.
        punctuations: stream -> what tells that no more of a key come in it. What could only be joined with more of them
            leaves the state; one that comes all the same is rejected.
        expired: what becomes of a tuple that found no partner in its time: held, or rejected, or emitted as a joined
            tuple with nulls for the rest (outer join); one for all streams, or one for each.
        lateness: how far out of order a stream's events may come; later ones are rejected, and kept.
        idle_after: a stream that has been silent for so long does not hold the others back.
        algorithm: `temporal_join`, which `auto` chooses always; the others of spark_jobs.joins.stream_stream run in
            `freshet bench` alone.
        memory: bytes that the join's state may take, on all workers together.
        most_facts: a tuple that would make more facts, judged by how many tuples of the other streams have its key, is
            rejected; None: all may.
        keep_versions: how long versions of the state are kept: a warehouse that is restored to how it was so long ago
            finds its state.
    """

    on: dict[Word, Annotated[tuple[Word, ...], BeforeValidator(_columns), Field(min_length=1), _COLUMNS]] = Field(
        min_length=2, examples=["on: {orders: order_id, payments: order_id}"]
    )
    match: Match = Field(default="equal", examples=["match: overlap"])
    within: Within | None = Field(default=None, examples=["within: 2h", "within: {fixed: 1h}"])
    emit: Literal["complete", "accumulate"] = Field(default="complete", examples=["emit: complete"])
    required: tuple[Word, ...] = Field(default=(), examples=["required: [orders]"])
    punctuations: dict[Word, Punctuation] = Field(
        default={}, examples=["punctuations: {auctions: unique, bids: {when: is_last}}"]
    )
    expired: Expired | dict[Word, Expired] = Field(
        default="hold", examples=["expired: hold", "expired: {orders: emit, payments: hold}"]
    )
    lateness: Duration = Field(default=timedelta(minutes=10), examples=["lateness: 10m"])
    idle_after: Duration = Field(default=timedelta(minutes=1), examples=["idle_after: 1m"])
    algorithm: Literal["auto", "temporal_join"] = Field(default="auto", examples=["algorithm: auto"])
    memory: Bytes = Field(default=64 << 20, examples=["memory: 64MB"])
    most_facts: int | None = Field(default=None, ge=1, examples=["most_facts: 1000"])
    keep_versions: Duration = Field(default=timedelta(hours=1), examples=["keep_versions: 1h"])

    def becomes(self, stream: str) -> Expired:
        """What becomes of the expired tuples of a stream."""
        return self.expired.get(stream, "hold") if isinstance(self.expired, dict) else self.expired

    @property
    def punctuation_columns(self) -> frozenset[tuple[str, str]]:
        """The streams and columns that tell when no more of a key come."""
        told = ((name, each) for name, each in self.punctuations.items() if isinstance(each, Punctuated))
        return frozenset((name, each.when) if each.when is not None else each.told_by for name, each in told)

    def equal(self, stream: str) -> tuple[str, ...]:
        """The columns of a stream that must equal the others'."""
        return self.on[stream][: len(self.on[stream]) - matched_columns(self.match)]

    def matched(self, stream: str) -> tuple[str, ...]:
        """The columns of a stream that must match them otherwise."""
        return self.on[stream][len(self.equal(stream)) :]

    @property
    def emitting(self) -> frozenset[str]:
        """The streams whose expired tuples are emitted."""
        return frozenset(stream for stream in self.on if self.becomes(stream) == "emit")

    @property
    def lacking(self) -> frozenset[str]:
        """The streams of which joined tuples may have no part."""
        return frozenset(stream for stream in self.on if self.emitting - {stream})


def settled_as(fate: Fate, expired: Expired) -> Fate:
    """What becomes of a tuple of this fate where those of its stream that expire are held, rejected or emitted."""
    if fate.share != EXPIRED.share or expired == "hold":
        return fate
    return JOINED if expired == "emit" else EXPIRED_REJECTED


def joined_columns(streams: Mapping[str, Source], correlate: Correlate) -> dict[str, StreamType]:
    """The columns of joined tuples: those of all streams, qualified, and `_completed_at`; `_joined_id` where needed."""
    columns = {
        qualified(stream, name): kind for stream, source in streams.items() for name, kind in source.columns.items()
    }
    columns[COMPLETED_AT] = StreamType("timestamp")
    return columns | ({JOINED_ID: StreamType("string")} if correlate.emitting else {})


def joined_source(streams: Mapping[str, Source], correlate: Correlate) -> dict[str, Any]:
    """What the joined tuples are like, as if they came from a source of their own.

    Lookups, fact and checks take them for that. Of `complete`, the ids of all events together tell them apart, or
    `_joined_id` where some may be missing; of `accumulate` the key.
    """
    if correlate.emit == "accumulate":
        stream = required_streams(streams, correlate)[0]
        event_id = [qualified(stream, column) for column in correlate.on.get(stream, ())]
    elif correlate.emitting:
        event_id = [JOINED_ID]
    else:
        event_id = event_ids(streams)
    return {
        "format": "parquet",
        "path": "/",
        "schema": ", ".join(f"`{name}` {kind}" for name, kind in joined_columns(streams, correlate).items()),
        "event_id": event_id,
        "event_time": COMPLETED_AT,
    }


def event_ids(streams: Mapping[str, Source]) -> list[str]:
    """The columns of joined tuples that have the ids of their events."""
    return [qualified(stream, column) for stream, source in streams.items() for column in source.event_id]


def required_streams(streams: Mapping[str, Source], correlate: Correlate) -> tuple[str, ...]:
    """The streams whose parts make a fact, with `accumulate`."""
    return correlate.required or tuple(streams)[:1]


def correlation_problems(streams: Mapping[str, Source] | None, correlate: Correlate | None) -> Iterator[Problem]:
    """What does not fit between the streams and how they are joined; None: nothing is said of them."""
    if streams is None or correlate is None:
        if streams is not None or correlate is not None:
            missing, there = ("correlate", "streams") if correlate is None else ("streams", "correlate")
            yield Problem(missing, f"is missing: {there} says nothing without it.")
        return
    if not 2 <= len(streams) <= MOST_STREAMS:
        yield Problem("streams", f"there are {len(streams)}. Allowed: 2 to {MOST_STREAMS}.")
    for name in streams:
        if name not in correlate.on:
            yield Problem("correlate.on", f"says nothing of {name}. Add {_key_of(streams[name], name, correlate)}.")
    if len({len(columns) for columns in correlate.on.values()}) > 1:
        yield Problem("correlate.on", "names more columns of one stream than of another; name as many of each.")
    yield from _key_problems(streams, correlate)
    for name in correlate.required:
        if name not in streams:
            key = path_of("correlate", "required")
            yield Problem(key, f"{shown(name)} {_no_stream(name, streams)}")
    if correlate.required and correlate.emit != "accumulate":
        yield Problem("correlate.required", "means nothing with emit: complete. Remove it, or write emit: accumulate.")
    yield from _unequal_problems(correlate)
    if correlate.most_facts is not None and correlate.emit == "accumulate":
        yield Problem("correlate.most_facts", "means nothing with emit: accumulate: one fact a key. Remove it.")
    yield from _expired_problems(streams, correlate)
    yield from _punctuation_problems(streams, correlate)
    yield from _removal_problems(streams)


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


def _unequal_problems(correlate: Correlate) -> Iterator[Problem]:
    """What means nothing where keys need not be equal."""
    if correlate.match == "equal":
        return
    if correlate.emit == "accumulate":
        yield Problem("correlate.match", "means nothing with emit: accumulate: a fact has one key. Remove it.")
    if correlate.most_facts is not None:
        text = "counts tuples of equal keys, and means nothing with another match. Remove one of them."
        yield Problem("correlate.most_facts", text)
    if correlate.punctuations:
        text = "say which keys are done with, which means nothing where keys need not be equal. Remove match or them."
        yield Problem("correlate.punctuations", text)


def _key_of(source: Source, name: str, correlate: Correlate) -> str:
    """What may be added to `on` for a stream: columns that are called as those of another one."""
    for columns in correlate.on.values():
        if set(columns) <= source.columns.keys():
            listed = ", ".join(columns)
            return f"for example {name}: {listed if len(columns) == 1 else f'[{listed}]'}"
    return "its columns that must match"


def _punctuation_problems(streams: Mapping[str, Source], correlate: Correlate) -> Iterator[Problem]:
    if correlate.punctuations and correlate.emit == "accumulate":
        text = "mean nothing with emit: accumulate, whose parts wait in the table of held tuples. Remove them."
        yield Problem("correlate.punctuations", text)
    lacking = _without_punctuations(streams, correlate)
    if correlate.punctuations and len(lacking) > 1:
        text = (
            f"let a tuple go when all other streams have punctuated its key; {', '.join(lacking)} have none, so that "
            "none ever goes. Add punctuations of all streams, or of all but one."
        )
        yield Problem("correlate.punctuations", text)
    for name, punctuation in correlate.punctuations.items():
        key = path_of("correlate", "punctuations", name)
        if name not in streams:
            yield Problem(key, _no_stream(name, streams))
        elif punctuation != "unique":
            yield from _column_problems(streams, name, punctuation)


def _without_punctuations(streams: Mapping[str, Source], correlate: Correlate, *, but: str = "") -> list[str]:
    """The streams that never say which keys are done with, but for one."""
    return [name for name in streams if name != but and name not in correlate.punctuations]


def _column_problems(streams: Mapping[str, Source], name: str, punctuation: Punctuated) -> Iterator[Problem]:
    """What is wrong with the column that says when no more of a key come in a stream."""
    allowed = ("boolean",) if punctuation.when is not None else _WHOLE_NUMBERS
    if punctuation.when is not None:
        key = path_of("correlate", "punctuations", name, "when")
        stream, column = name, punctuation.when
    else:
        key = path_of("correlate", "punctuations", name, "count")
        stream, column = punctuation.told_by
        if stream == name or not column:
            text = f"{shown(punctuation.count)} is not a column of another stream. Write it as stream.column."
            yield Problem(key, text)
            return
    if stream not in streams:
        yield Problem(key, f"{shown(stream)} {_no_stream(stream, streams)}")
        return
    known = streams[stream].columns
    kind = known.get(column)
    if kind is None:
        yield Problem(key, _no_column(column, stream, known))
    elif kind.name not in allowed:
        yield Problem(key, f"column {column!r} of {stream} is of type {kind}. Allowed: {', '.join(allowed)}.")


def _expired_problems(streams: Mapping[str, Source], correlate: Correlate) -> Iterator[Problem]:
    for name in correlate.expired if isinstance(correlate.expired, dict) else ():
        if name not in streams:
            key = path_of("correlate", "expired", name)
            yield Problem(key, _no_stream(name, streams))
    if correlate.emitting and correlate.emit == "accumulate":
        yield Problem("correlate.expired", "means nothing with emit: accumulate, whose parts don't expire. Remove it.")
    elif correlate.within is None:
        for name in sorted(correlate.emitting & streams.keys()):
            if lacking := _without_punctuations(streams, correlate, but=name):
                text = (
                    f"is emit, but without a window no tuple of {name} expires before all other streams have "
                    f"punctuated its key. Add for example within: 2h, or punctuations of {', '.join(lacking)}."
                )
                yield Problem("correlate.expired", text)


def emission_problems(
    streams: Mapping[str, Source], correlate: Correlate, fact: Fact, lookups: Sequence[Lookup]
) -> Iterator[Problem]:
    """What keeps joined tuples from being facts that lack parts.

    Args:
        streams: by name.
        correlate: how they are joined; sound in itself.
        fact: the table that is loaded.
        lookups: of the pipeline.
    """
    missing = [column for column in event_ids(streams) if column not in fact.columns.values()]
    if correlate.emitting and missing:
        text = (
            f"leaves out {', '.join(missing)}, but with expired: emit the fact must tell which events it is made of. "
            f"Add for example {missing[0].replace('.', '_')}: {missing[0]}, in a column that takes nulls."
        )
        yield Problem("fact.columns", text)
    for position, lookup in enumerate(lookups):
        for column in lookup.on:
            stream = column.partition(".")[0]
            if stream in correlate.lacking and isinstance(lookup.on_unmatched, str):
                text = (
                    f"is null where the part of {stream} is missing (expired: emit), and finds nothing then. "
                    "Write on_unmatched: {default: {...}}."
                )
                yield Problem(path_of("lookups", position, "on", column), text)


def _key_problems(streams: Mapping[str, Source], correlate: Correlate) -> Iterator[Problem]:
    kinds: dict[int, tuple[str, StreamType]] = {}
    known_columns = [
        (name, [(column, streams[name].columns[column]) for column in columns if column in streams[name].columns])
        for name, columns in correlate.on.items()
        if name in streams
    ]
    for text in match_problems(correlate.match, known_columns):
        yield Problem("correlate.match", text)
    for name, columns in correlate.on.items():
        key = path_of("correlate", "on", name)
        if name not in streams:
            yield Problem(key, _no_stream(name, streams))
            continue
        known = streams[name].columns
        for position, column in enumerate(columns):
            kind = known.get(column)
            if kind is None:
                yield Problem(key, _no_column(column, name, known))
            elif kind.name not in _KEY_TYPES:
                allowed = f"Allowed: {', '.join(_KEY_TYPES)}."
                yield Problem(key, f"column {column!r} is of type {kind}, which can't be a join key. {allowed}")
            else:
                first_name, first = kinds.setdefault(position, (f"{name}.{column}", kind))
                if first != kind:
                    yield Problem(
                        key, f"column {column!r} is of type {kind}, {first_name} of type {first}: make them one."
                    )


def _no_stream(name: str, streams: Mapping[str, Source]) -> str:
    return f"is not a stream.{suggestion(name, streams)} Streams: {', '.join(streams)}."


def _no_column(column: str, stream: str, known: Mapping[str, StreamType]) -> str:
    text = f"{shown(column)} is not a column of streams.{stream}.schema.{suggestion(column, known)}"
    return f"{text} Columns: {', '.join(known)}."
