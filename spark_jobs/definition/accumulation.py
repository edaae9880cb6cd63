"""What a definition with `emit: accumulate` must say, so that each part finds its columns of the one row of its key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from spark_jobs.definition.correlation import Correlate, qualified, required_streams
from spark_jobs.definition.problems import Problem, path_of

if TYPE_CHECKING:
    from spark_jobs.definition import Fact, Lookup, Source


def accumulation_problems(
    streams: Mapping[str, Source], correlate: Correlate, fact: Fact, lookups: Sequence[Lookup]
) -> Iterator[Problem]:
    """What keeps the facts from being filled in part by part.

    Whether a part is in a row is told by its event id there; where one stream alone makes the rows, by the row itself.

    Args:
        streams: by name.
        correlate: how they are joined; sound in itself, and of `emit: accumulate`.
        fact: the table that is filled.
        lookups: of the pipeline.
    """
    if correlate.within is not None:
        text = "means nothing with emit: accumulate: a part is filled in whenever it comes. Remove it."
        yield Problem("correlate.within", text)
    required = required_streams(streams, correlate)
    key = {qualified(required[0], column) for column in correlate.on[required[0]]}
    for name, source in streams.items():
        event_id = [qualified(name, column) for column in source.event_id]
        missing = [column for column in event_id if column not in fact.columns.values()]
        if missing:
            text = (
                f"leaves out {', '.join(missing)}, but with emit: accumulate the fact must tell which events it is "
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
                "hold, which is the default, is not possible with emit: accumulate: reprocessing does not read parts, "
                "so that one which is held would stay so. Write reject, or {default: {...}}."
            )
            yield Problem(path_of("lookups", position, "on_unmatched"), text)
        for column in lookup.on:
            if not column.startswith(qualified(required[0], "")):
                text = (
                    f"is not a column of {required[0]}. With emit: accumulate lookups are made for the first required "
                    f"stream alone. Write one of its columns, or look {column} up in a view of the facts."
                )
                yield Problem(path_of("lookups", position, "on", column), text)


def _besides_key(event_id: Sequence[str], key: set[str], fact: Fact) -> bool:
    """Whether a column of the event id is kept in a column that is not one of the key's."""
    origins = list(fact.columns.values())
    return any(column not in key or origins.count(column) > 1 for column in event_id)
