"""The three shapes of a pipeline: one stream, streams that are joined, streams whose parts accumulate in one fact.

What differs between them stands here, or in one table of each room that asks `definition.shape`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.definition.accumulate import Accumulate, accumulate_problems, accumulation_problems
from spark_jobs.definition.ddl import StreamType
from spark_jobs.definition.join import Join
from spark_jobs.definition.join_problems import emission_problems, join_problems
from spark_jobs.definition.joined_tuple import COMPLETED_AT, JOINED_ID, event_ids, qualified
from spark_jobs.definition.problems import Problem
from spark_jobs.definition.stream_tuple import EventColumns

if TYPE_CHECKING:
    from spark_jobs.definition.model import Fact, Lookup
    from spark_jobs.definition.source import Source

# Joined tuples are no records: what is held of them are their columns, as an object.
_JOINED_FORMAT = "json"


@dataclass(frozen=True)
class Tuples:
    """The tuples that become facts, as lookups and facts see them.

    Attributes:
        columns: name -> type.
        event_id: columns that tell them apart: the key of the fact table.
        event_time: timestamp column, when it happened; freshness is measured from it.
        source: whose records they are; None: they are joined of several streams' tuples.
    """

    columns: Mapping[str, StreamType]
    event_id: tuple[str, ...]
    event_time: str
    source: Source | None = None

    @classmethod
    def of(cls, source: Source) -> Tuples:
        """Those of one stream."""
        return cls(source.columns, source.event_id, source.event_time, source)

    def event(self, pipeline: str) -> EventColumns:
        """Which of the columns make the event, for the tasks of a pipeline."""
        held_as = _JOINED_FORMAT if self.source is None else self.source.record_format.held_as
        return EventColumns(pipeline, self.event_id, self.event_time, tuple(self.columns), held_as)


class _Shape(ABC):
    """What all shapes have.

    Attributes:
        privileges: what loaders need on the fact table.
    """

    privileges: ClassVar[tuple[str, ...]] = ("SELECT", "INSERT")

    @property
    @abstractmethod
    def streams(self) -> Mapping[str, Source]:
        """Where the events of each stream come from, by its name."""

    @property
    @abstractmethod
    def tuples(self) -> Tuples:
        """The tuples that become facts."""

    @property
    def on(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each stream by which it belongs to the others."""
        return {}

    @property
    def late_window(self) -> timedelta | None:
        """The length of the window in which reprocessing joins tuples that were late; None: it never does."""
        return None

    def problems(self) -> Iterator[Problem]:
        """What does not fit between the streams."""
        yield from ()

    def fact_problems(self, fact: Fact, lookups: Sequence[Lookup]) -> Iterator[Problem]:
        """What keeps sound streams from becoming these facts by these lookups."""
        yield from ()


@dataclass(frozen=True)
class OneStream(_Shape):
    """Each event becomes a fact."""

    source: Source

    @property
    def streams(self) -> Mapping[str, Source]:
        """The only stream, which is called nothing."""
        return {"": self.source}

    @property
    def tuples(self) -> Tuples:
        """Its events."""
        return Tuples.of(self.source)


@dataclass(frozen=True)
class _SeveralStreams(_Shape):
    """What shapes of several streams have."""

    sources: Mapping[str, Source]

    @property
    def streams(self) -> Mapping[str, Source]:
        """By the names that the definition gives them."""
        return self.sources


@dataclass(frozen=True)
class JoinedStreams(_SeveralStreams):
    """Events of several streams that match become a fact together."""

    join: Join

    @property
    def tuples(self) -> Tuples:
        """Joined tuples: the ids of all events together tell them apart, or `_joined_id` where some may be missing."""
        columns = _joined_columns(self.sources)
        if self.join.emitting:
            return Tuples(columns | {JOINED_ID: StreamType("string")}, (JOINED_ID,), COMPLETED_AT)
        return Tuples(columns, tuple(event_ids(self.sources)), COMPLETED_AT)

    @property
    def on(self) -> Mapping[str, tuple[str, ...]]:
        """The columns that must match."""
        return self.join.on

    @property
    def late_window(self) -> timedelta | None:
        """Without a window all stays in the state. In an outer join nulls have taken the place of what is late."""
        return None if self.join.emitting else self.join.window_length

    def problems(self) -> Iterator[Problem]:
        """What does not fit between the streams and their join."""
        return join_problems(self.sources, self.join)

    def fact_problems(self, fact: Fact, lookups: Sequence[Lookup]) -> Iterator[Problem]:
        """What keeps joined tuples that lack parts from becoming facts."""
        return emission_problems(self.sources, self.join, fact, lookups)


@dataclass(frozen=True)
class AccumulatedStreams(_SeveralStreams):
    """Events of several streams that have one key fill one fact."""

    privileges: ClassVar[tuple[str, ...]] = ("SELECT", "INSERT", "UPDATE")

    accumulate: Accumulate

    @property
    def tuples(self) -> Tuples:
        """The parts that make a fact, with room for the others: the key tells them apart."""
        first = self.required[0]
        key = tuple(qualified(first, column) for column in self.accumulate.on.get(first, ()))
        return Tuples(_joined_columns(self.sources), key, COMPLETED_AT)

    @property
    def required(self) -> tuple[str, ...]:
        """The streams any of whose parts makes a fact; lookups are made for those of the first."""
        return self.accumulate.required_of(self.sources)

    @property
    def on(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of the key."""
        return self.accumulate.on

    def problems(self) -> Iterator[Problem]:
        """What does not fit between the streams and their key."""
        return accumulate_problems(self.sources, self.accumulate)

    def fact_problems(self, fact: Fact, lookups: Sequence[Lookup]) -> Iterator[Problem]:
        """What keeps facts from being filled in part by part."""
        return accumulation_problems(self.sources, self.accumulate, fact, lookups)


Shape = OneStream | JoinedStreams | AccumulatedStreams
"""What a pipeline does with its streams."""
SHAPES = (("source",), ("streams", "join"), ("streams", "accumulate"))
"""The keys of a definition that each shape has."""
SHAPE_KEYS = tuple(dict.fromkeys(key for keys in SHAPES for key in keys))


def _joined_columns(streams: Mapping[str, Source]) -> dict[str, StreamType]:
    """The columns of all streams, qualified, and when the last of the events happened."""
    columns = {
        qualified(stream, name): kind for stream, source in streams.items() for name, kind in source.columns.items()
    }
    return columns | {COMPLETED_AT: StreamType("timestamp")}


def shape_problems(given: Collection[str]) -> Iterator[Problem]:
    """What keeps a definition from having one of the shapes.

    Args:
        given: which of `source`, `streams`, `join` and `accumulate` it has.
    """
    if "source" in given and "streams" in given:
        yield Problem("source", "is one stream, and streams are several. Write one of both.")
    if "join" in given and "accumulate" in given:
        yield Problem("accumulate", "fills facts in part by part, join when all parts are there. Write one of both.")
    if "streams" not in given:
        for part in ("join", "accumulate"):
            if part in given:
                yield Problem("streams", f"is missing: {part} says nothing without it.")
    elif "join" not in given and "accumulate" not in given:
        yield Problem("join", "is missing: streams says nothing without it. Or write accumulate.")
    if not given:
        yield Problem("source", "is missing. For example: source: {format: json, path: ..., schema: ..., ...}")
