"""Facts that are filled in part by part: the part `accumulate` of a definition, and what keeps it from being done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from spark_jobs.definition.fields import Part, Word
from spark_jobs.definition.join import Join
from spark_jobs.definition.joined_tuple import qualified
from spark_jobs.definition.problems import Problem, path_of, shown
from spark_jobs.definition.stream_keys import Keys, key_problems, no_stream

if TYPE_CHECKING:
    from spark_jobs.definition import Fact, Lookup, Source


class Accumulate(Part):
    """One fact for each key, made by the first required part; later parts fill in their columns, however late they are.

    The fact table and the held tuples are its state.

    Attributes:
        on: stream -> its columns that make the key (one name, or a list).
        required: the streams any of which makes the fact; by default the first one.
    """

    hints: ClassVar[Mapping[str, str]] = dict.fromkeys(Join.model_fields, "It is a key of `join`.")

    on: Keys
    required: tuple[Word, ...] = Field(default=(), examples=["required: [orders]"])

    def required_of(self, streams: Iterable[str]) -> tuple[str, ...]:
        """The streams whose parts make a fact, of all streams in the order of the definition."""
        return self.required or tuple(streams)[:1]


def accumulate_problems(streams: Mapping[str, Source], accumulate: Accumulate) -> Iterator[Problem]:
    """What does not fit between the streams and the key of their facts."""
    yield from key_problems(streams, "accumulate", accumulate.on)
    for name in accumulate.required:
        if name not in streams:
            yield Problem(path_of("accumulate", "required"), f"{shown(name)} {no_stream(name, streams)}")


def accumulation_problems(
    streams: Mapping[str, Source], accumulate: Accumulate, fact: Fact, lookups: Sequence[Lookup]
) -> Iterator[Problem]:
    """What keeps the facts from being filled in part by part.

    Whether a part is in a row is told by its event id there; where one stream alone makes the rows, by the row itself.

    Args:
        streams: by name.
        accumulate: their key; sound in itself.
        fact: the table that is filled.
        lookups: of the pipeline.
    """
    required = accumulate.required_of(streams)
    key = {qualified(required[0], column) for column in accumulate.on[required[0]]}
    for name, source in streams.items():
        event_id = [qualified(name, column) for column in source.event_id]
        missing = [column for column in event_id if column not in fact.columns.values()]
        if missing:
            text = (
                f"leaves out {', '.join(missing)}, but with accumulate the fact must tell which events it is "
                f"made of. Add for example {missing[0].replace('.', '_')}: {missing[0]}."
            )
            yield Problem("fact.columns", text)
        elif required != (name,) and not _besides_key(event_id, key, fact):
            text = (
                f"keeps the event id of {name} in the key alone, which a fact has before that part is there. "
                f"Add a column that takes nulls, for example {event_id[0].replace('.', '_')}: {event_id[0]}."
            )
            yield Problem("fact.columns", text)
    for position, lookup in enumerate(lookups):
        if lookup.on_unmatched == "hold":
            text = (
                "hold, which is the default, is not possible with accumulate: reprocessing does not read parts, "
                "so that one which is held would stay so. Write reject, or {default: {...}}."
            )
            yield Problem(path_of("lookups", position, "on_unmatched"), text)
        for column in lookup.on:
            if not column.startswith(qualified(required[0], "")):
                text = (
                    f"is not a column of {required[0]}. With accumulate lookups are made for the first required "
                    f"stream alone. Write one of its columns, or look {column} up in a view of the facts."
                )
                yield Problem(path_of("lookups", position, "on", column), text)


def _besides_key(event_id: Sequence[str], key: set[str], fact: Fact) -> bool:
    """Whether a column of the event id is kept in a column that is not one of the key's."""
    origins = list(fact.columns.values())
    return any(column not in key or origins.count(column) > 1 for column in event_id)
