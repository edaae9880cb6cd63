"""Checks that the parts of a pipeline's definition fit together: columns, lookups, fact, expectations."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from spark_jobs.byte_sizes import parse_bytes
from spark_jobs.definition.ddl import StreamType
from spark_jobs.definition.formats import FORMATS
from spark_jobs.definition.kinds import KINDS
from spark_jobs.definition.operation import Between, Expectation
from spark_jobs.definition.problems import Problem, path_of, suggestion
from spark_jobs.definition.stream_tuple import BATCH_NO

if TYPE_CHECKING:
    from spark_jobs.definition import Fact, Lookup, Source
    from spark_jobs.definition.shapes import Tuples

# Columns that source and plan add to a stream tuple.
_RESERVED_COLUMNS = re.compile(
    r"_arrived_at|_record|_range|_position|_held_id|_held_version|_missing|_page_\d+|_batch_no|_attempts|_place",
    re.IGNORECASE,
)
_RESERVED = (
    "has a name that the plan needs itself "
    "(_arrived_at, _record, _range, _position, _held_id, _held_version, _missing, _page_<n>, _batch_no, _attempts, "
    "_place)"
)

# Where Freshet keeps its ledger; a table of facts there would be in its way.
_CONTROL_SCHEMA = "freshet"

_EVENT_ID_TYPES = ("bigint", "int", "smallint", "tinyint", "string", "date", "timestamp", "decimal", "boolean")
_JOIN_KEY_TYPES = ("bigint", "int", "smallint", "string", "date")

_TIMES = {"date", "timestamp"}
_NUMBERS = {"bigint", "int", "smallint", "tinyint", "decimal", "double", "float"}


def inconsistencies(
    streams: Mapping[str, Source],
    tuples: Tuples | None,
    lookups: Sequence[Lookup | None],
    fact: Fact | None,
    expectations: Sequence[Expectation | None] = (),
) -> Iterator[Problem]:
    """Problems between the parts of a definition; None stands for a part that is wrong in itself, or not there.

    Args:
        streams: where events come from; the only one is called nothing.
        tuples: that are to become facts.
        lookups: in their order.
        fact: the table.
        expectations: of the facts.
    """
    for stream, each in streams.items():
        path = path_of("streams", stream) if stream else "source"
        yield from _event_id_problems(path, each)
        yield from _event_time_problems(path, each)
        yield from _format_problems(path, each)
        for name in each.record_columns:
            if _RESERVED_COLUMNS.fullmatch(name):
                yield Problem(path_of(path, "schema"), f"column {name!r} {_RESERVED}; choose another.")
    for position, lookup in enumerate(lookups):
        if lookup is not None:
            fetched = _outputs_of(lookups[:position])
            if tuples is not None:
                yield from _join_key_problems(position, lookup, tuples, fetched)
            yield from _output_problems(position, lookup, tuples, fetched)
            yield from _default_problems(position, lookup)
            yield from _validity_problems(position, lookup)
    if fact is not None and tuples is not None and None not in lookups:
        yield from _fact_problems(fact, tuples, _outputs_of(lookups))
    if fact is not None:
        yield from _table_problems(fact)
        yield from _expectation_problems(expectations, fact, tuples)


def _outputs_of(lookups: Sequence[Lookup | None]) -> dict[str, str]:
    """Output name -> path of the lookup that fetches it."""
    return {
        output: path_of("lookups", position)
        for position, lookup in enumerate(lookups)
        if lookup is not None
        for output in lookup.fetch
    }


def _not_a_column(name: str, columns: Collection[str], path: str) -> str:
    return f"{name!r} is not a column of {path}.{suggestion(name, columns)} Columns: {', '.join(columns)}."


def _event_id_problems(path: str, source: Source) -> Iterator[Problem]:
    allowed = ", ".join(_EVENT_ID_TYPES)
    for position, name in enumerate(source.event_id):
        key, kind = path_of(path, "event_id", position), source.columns.get(name)
        if kind is None:
            yield Problem(key, _not_a_column(name, source.columns, path_of(path, "schema")))
        elif kind.name not in _EVENT_ID_TYPES:
            yield Problem(
                key, f"column {name!r} is of type {kind}, which is not safe to tell events apart. Allowed: {allowed}."
            )
        if name in source.event_id[:position]:
            yield Problem(key, f"{name!r} appears twice; remove one.")


def _event_time_problems(path: str, source: Source) -> Iterator[Problem]:
    name, kind = source.event_time, source.columns.get(source.event_time)
    if kind is None:
        text = _not_a_column(name, source.columns, path_of(path, "schema"))
        yield Problem(path_of(path, "event_time"), text)
    elif kind.name != "timestamp":
        why = "freshness is measured from it"
        yield Problem(path_of(path, "event_time"), f"column {name!r} is of type {kind}. Allowed: timestamp; {why}.")


def _format_problems(path: str, source: Source) -> Iterator[Problem]:
    kind, used = source.kind, source.record_format
    fits = kind.bears in used.borne_by
    for key, each in ((each.key, each) for each in FORMATS.values() if each.key is not None):
        if fits and getattr(source, key) is None and used.name == each.name:
            yield Problem(path_of(path, key), each.lacking)
        elif getattr(source, key) is not None and used.name != each.name:
            yield Problem(path_of(path, key), f"belongs to format: {each.name} only.")
    if not fits:
        of = " and ".join(each.records for each in KINDS.values() if each.bears in used.borne_by)
        allowed = ", ".join(each.name for each in FORMATS.values() if kind.bears in each.borne_by)
        yield Problem(
            path_of(path, "format"), f"{used.name!r} is a format of {of}. Allowed with {kind.key}: {allowed}."
        )
    if kind.bears == "files" and source.envelope is not None:
        of = " and ".join(each.records for each in KINDS.values() if each.bears == "messages")
        yield Problem(path_of(path, "envelope"), f"is one of {of}, and this source is {kind.records}. Remove it.")
    if source.after_load != "keep" and not kind.removes:
        text = f"means nothing with {kind.key}, which keeps records itself. Remove it."
        yield Problem(path_of(path, "after_load"), text)
    yield from _option_problems(path, source)
    yield from used.problems(path, source)
    yield from kind.problems(path, source)


def _option_problems(path: str, source: Source) -> Iterator[Problem]:
    used, allowed = source.record_format.name, (*source.record_format.options, *source.kind.options)
    choice = f"Allowed for {used}: {', '.join(allowed)}." if allowed else f"{used} takes none."
    for option, value in source.options.items():
        key = path_of(path, "options", option)
        if option not in allowed:
            of = next((f"belongs to {each.records} only" for each in KINDS.values() if option in each.options), None)
            text = of or "is not an option of this format"
            yield Problem(key, f"{text}.{suggestion(option, allowed)} {choice}")
        elif option == "most_unpacked":
            try:
                parse_bytes(value)
            except ValueError as error:
                yield Problem(key, str(error))
        elif option == "most_rejected" and not re.fullmatch(r"[0-9]{1,12}", value):
            yield Problem(key, f"{value!r} is not a number of records. Allowed: a whole number, for example 100000.")


def _join_key_problems(position: int, lookup: Lookup, tuples: Tuples, fetched: dict[str, str]) -> Iterator[Problem]:
    for column in lookup.on:
        key, kind = path_of("lookups", position, "on", column), tuples.columns.get(column)
        if column in fetched:
            text = f"is fetched by {fetched[column]}, but the key of a lookup must be a column of a stream."
            yield Problem(key, f"{text} Columns: {', '.join(tuples.columns)}.")
        elif kind is None:
            yield Problem(key, _not_a_column(column, tuples.columns, "a stream"))
        elif kind.name not in _JOIN_KEY_TYPES:
            allowed = f"Allowed: {', '.join(_JOIN_KEY_TYPES)} (string for a uuid, too)."
            yield Problem(key, f"column {column!r} is of type {kind}, which can't be a join key. {allowed}")


def _output_problems(
    position: int, lookup: Lookup, tuples: Tuples | None, fetched: dict[str, str]
) -> Iterator[Problem]:
    taken = {name.lower(): f"is fetched by {path} already" for name, path in fetched.items()}
    for output in lookup.fetch:
        key = path_of("lookups", position, "fetch", output)
        if tuples is not None and output.lower() in {column.lower() for column in tuples.columns}:
            yield Problem(key, "is the name of a stream's column already; choose another output name.")
        elif output.lower() in taken:
            yield Problem(key, f"{taken[output.lower()]} (Spark ignores case); choose another output name.")
        elif _RESERVED_COLUMNS.fullmatch(output):
            yield Problem(key, f"{_RESERVED}; choose another.")
        taken.setdefault(output.lower(), f"is the output {output!r} once more")


def _default_problems(position: int, lookup: Lookup) -> Iterator[Problem]:
    if isinstance(lookup.on_unmatched, str):
        return
    default, key = lookup.on_unmatched.default, path_of("lookups", position, "on_unmatched", "default")
    outputs = f"Outputs: {', '.join(lookup.fetch)}."
    for name, value in default.items():
        if name not in lookup.fetch:
            yield Problem(path_of(key, name), f"is not fetched here.{suggestion(name, lookup.fetch)} {outputs}")
        elif isinstance(value, dict | list) or (isinstance(value, float) and not math.isfinite(value)):
            yield Problem(path_of(key, name), f"{value!r} is not one value. Write a finite number, a text or null.")
    missing = [output for output in lookup.fetch if output not in default]
    if missing:
        yield Problem(key, f"gives no value for {', '.join(missing)}; give one for each output (null is allowed).")


def _validity_problems(position: int, lookup: Lookup) -> Iterator[Problem]:
    if lookup.validity is None:
        if lookup.as_of is not None:
            text = f"says at which time, but not by which columns of {lookup.relation} a version is valid then."
            key = path_of("lookups", position, "as_of")
            yield Problem(key, f"{text} Add for example validity: [valid_from, valid_to].")
        return
    key = path_of("lookups", position, "validity")
    if lookup.as_of is None:
        yield Problem(key, "means nothing without as_of. Add as_of: event_time, or remove it.")
    begin, end = lookup.validity
    if begin == end:
        text = f"{begin!r} appears twice; name the column from when, then the one until when a version is valid."
        yield Problem(key, text)
    for column in dict.fromkeys(lookup.validity):
        if column in lookup.on.values():
            text = f"{column!r} is a column of the key in `on`. Versions of a tuple have one key: remove it there."
            yield Problem(key, text)


def _table_problems(fact: Fact) -> Iterator[Problem]:
    schema, table = fact.table.split(".", 1)
    if schema == _CONTROL_SCHEMA:
        text = f"{fact.table!r} is in the schema {schema}, which holds Freshet's own tables."
        yield Problem("fact.table", f"{text} Allowed: any other schema. Write for example warehouse.{table}.")


def _fact_problems(fact: Fact, tuples: Tuples, fetched: dict[str, str]) -> Iterator[Problem]:
    known = [*tuples.columns, *fetched, BATCH_NO]
    for column, origin in fact.columns.items():
        if origin not in known:
            text = f"{origin!r} is neither a column of a stream nor an output of a lookup.{suggestion(origin, known)}"
            yield Problem(path_of("fact", "columns", column), f"{text} Known: {', '.join(known)}.")
    missing = [name for name in tuples.event_id if name not in fact.columns.values()]
    if missing:
        text = f"leaves out {', '.join(missing)}, but the event id is the fact's primary key: all of it must be there."
        yield Problem("fact.columns", f"{text} Add for example {missing[0]}: {missing[0]}.")


def _expectation_problems(
    expectations: Sequence[Expectation | None], fact: Fact, tuples: Tuples | None
) -> Iterator[Problem]:
    """Problems between the expectations and the fact; None stands for one that is wrong in itself."""
    for position, expectation in enumerate(expectations):
        if expectation is None:
            continue
        key = path_of("validation", "expectations", position, expectation.kind)
        for name in expectation.columns:
            if name not in fact.columns:
                columns = f"Columns: {', '.join(fact.columns)}."
                text = f"{name!r} is not a column of fact.columns.{suggestion(name, fact.columns)} {columns}"
                yield Problem(key, text)
        kind = None if tuples is None else _kind_of(expectation, fact, tuples)
        if kind is None:
            continue
        if expectation.between is not None:
            yield from _between_problems(key, expectation.between, kind)
        elif expectation.matches is not None and kind.name != "string":
            column = expectation.matches.column
            yield Problem(key, f"column {column!r} is of type {kind}. Allowed: string; a pattern is matched with text.")


def _kind_of(expectation: Expectation, fact: Fact, tuples: Tuples) -> StreamType | None:
    """Type of the column that it is about; None if there is not one, or the warehouse alone knows its type."""
    if len(expectation.columns) != 1:
        return None
    origin = fact.columns.get(expectation.columns[0], "")
    return StreamType("bigint") if origin == BATCH_NO else tuples.columns.get(origin)


def _between_problems(key: str, between: Between, kind: StreamType) -> Iterator[Problem]:
    if kind.name not in _TIMES | _NUMBERS:
        yield Problem(key, f"column {between.column!r} is of type {kind}. Allowed: numbers, dates and timestamps.")
    elif between.of_times != (kind.name in _TIMES):
        wanted = "a date or time" if kind.name in _TIMES else "a number"
        yield Problem(key, f"column {between.column!r} is of type {kind}; write {wanted} as min and max.")
