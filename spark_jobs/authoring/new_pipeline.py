"""Writes the definition of a new pipeline, of one stream or several: commented YAML, from samples of its events."""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from textwrap import indent

import yaml

from spark_jobs.authoring.matching_columns import columns_of_one_type, matching_columns, with_one_type
from spark_jobs.authoring.sample import Sample
from spark_jobs.authoring.yaml_schema import FIRST_LINE, write_schema
from spark_jobs.definition import PipelineDefinition, definition_files, load_definition
from spark_jobs.errors import FreshetError, PipelineDefinitionError
from spark_jobs.settings import HOME_VARIABLE
from spark_jobs.shown_text import shown_text

_TEMPLATE = """\
{first_line}
# A pipeline: events are joined with master data and loaded as facts, seconds after they happened.
# Made from {sample}, {records:,} records of it. Look at what is marked with "?", then:
#   freshet ddl {name} | freshet psql      makes the fact table
#   freshet check {name}                   tells what does not fit yet
#   freshet load {name} --once             loads what has landed

# The same as the file's name. Airflow's DAG is stream_load__{name}.
name: {name}

source:
  # json (one object a line), parquet or csv.
  format: {format}
  # A folder. The program that writes the files must make each appear in one step: write it under a name that starts
  # with "_" or ".", then rename it.
  path: {path}
{options}  # What an event holds besides is ignored; an event that does not fit is rejected, and kept.
  schema: >-
{schema}
  # {id_comment}
  event_id: [{event_id}]
  # When the event happened. Freshness is the time from here until the fact can be read.
  event_time: {event_time}

# Joins with master data, as many as there are. Until there is one, facts are the events themselves.
# lookups:
#   - relation: master.customer
#     on: {{customer_id: id}}                # column of the event: column of the relation
#     fetch: {{customer_sk: customer_sk}}    # name for fact.columns: column of the relation
#     on_unmatched: hold                   # or reject, or {{default: {{customer_sk: -1}}}}

fact:
  # It must exist before the stream starts, with the event id as its primary key: `freshet ddl {name}` writes it.
  table: {table}
  # Column of the table: column of the event, or output of a lookup; _batch_no is the number of the load.
  columns:
{columns}
    batch_no: _batch_no

# How old an event may be when its fact can be read. Batches are sized by it.
freshness: {{target: 5s}}
"""
_STREAMS_TEMPLATE = """\
{first_line}
# A pipeline of several streams: events that belong together become one fact, seconds after the last of them happened.
# Made from {samples}. Look at what is marked with "?", then:
#   freshet ddl {name} | freshet psql      makes the fact table
#   freshet check {name}                   tells what does not fit yet
#   freshet load {name} --once             loads what has landed

# The same as the file's name. Airflow's DAG is stream_load__{name}.
name: {name}

# Folders: the program that writes the files must make each appear in one step, by renaming it from a name that starts
# with "_" or ".". What an event holds besides the schema is ignored.
streams:
{streams}
# A fact when an event of each stream is there. Or write `accumulate:` instead of `join:`, with nothing but `on`, and
# leave out `completed_at`: a row for each key, which the first stream's event makes, and the others' fill in.
join:
  # {on_comment}
  on: {{{on}}}
  # ? Events belong together that happened less than this long before or after each other. Left out: whenever they come.
  window: 1h
  # An event that finds no partner in its time: hold, reject, or emit (a fact with nulls for the rest).
  expired: hold
  # How far out of order a stream's events may come. What comes later is kept, and joined by reprocessing.
  allowed_lateness: 1m
  # A stream that brings nothing for so long does not hold the others back.
  idle_timeout: 1m
  # Of the events that wait for others, on all workers together; what is more goes to disk.
  memory: 64MB

# Joins of the joined events with master data, as those of one stream: `on` names columns as stream.column.
# lookups: []

fact:
  # It must exist before the stream starts, with the ids of all parts as its primary key: `freshet ddl {name}` does it.
  table: {table}
  # Column of the table: stream.column, or output of a lookup; _completed_at is when the last of the parts happened.
  columns:
{columns}
    completed_at: _completed_at
    batch_no: _batch_no

# How old the last of the parts may be when the fact can be read. Batches are sized by it.
freshness: {{target: 5s}}
"""
_STREAM_TEMPLATE = """\
{name}:
  format: {format}
  path: {path}
{options}  schema: >-
{schema}
  # {id_comment}
  event_id: [{event_id}]
  event_time: {event_time}
"""


def definition_text(
    name: str, sample: Sample, origin: str, *, path: str | None = None, table: str | None = None
) -> str:
    """A commented definition.

    Args:
        name: of the pipeline.
        sample: what its events are like.
        origin: name of the sample, for the comment.
        path: landing folder; default: one in the home.
        table: fact table; default: warehouse.<name>.

    Raises:
        FreshetError: the events have no timestamp that could say when they happened.
    """
    return _TEMPLATE.format(
        first_line=FIRST_LINE,
        sample=shown_text(origin),
        records=sample.records,
        name=name,
        table=table or f"warehouse.{name}",
        columns=_fact_columns(list(sample.columns), "batch_no"),
        **_source_keys(sample, origin, path or _landing(name)),
    )


def streams_text(name: str, samples: Mapping[str, tuple[Sample, str]], *, table: str | None = None) -> str:
    """A commented definition of several streams; arguments and errors as of `definition_text`.

    Args:
        name: of the pipeline.
        samples: what the events of each stream are like, and the sample's name, by stream.
        table: fact table.
    """
    on_comment = "? Columns that are equal in all parts of a fact: those whose names and values agree most."
    of_streams = {stream: sample for stream, (sample, _) in samples.items()}
    on = matching_columns(of_streams)
    if not on:
        on_comment = (
            "? No columns of the samples agree in names or values: name those by which the events belong together."
        )
        on = columns_of_one_type(of_streams)
    of_streams = with_one_type(of_streams, on)
    columns = [f"{stream}.{column}" for stream, sample in of_streams.items() for column in sample.columns]
    streams = [
        _STREAM_TEMPLATE.format(
            name=_scalar(stream), **_source_keys(of_streams[stream], origin, _landing(f"{name}/{stream}"))
        )
        for stream, (_, origin) in samples.items()
    ]
    return _STREAMS_TEMPLATE.format(
        first_line=FIRST_LINE,
        samples=", ".join(f"{shown_text(origin)} ({sample.records:,} records)" for sample, origin in samples.values()),
        name=name,
        streams=indent("".join(streams), "  "),
        on_comment=on_comment,
        on=", ".join(f"{_scalar(stream)}: {_scalar(column)}" for stream, column in on.items()),
        table=table or f"warehouse.{name}",
        columns=_fact_columns(columns, "batch_no", "completed_at"),
    )


def _source_keys(sample: Sample, origin: str, path: str) -> dict[str, str]:
    """The keys of a source, as its template takes them."""
    if sample.event_time is None:
        raise FreshetError(
            f"{origin} has no column of timestamps without nulls, and freshness is measured from one. A timestamp is "
            f"written as 2024-12-31T23:59:59Z. Columns: {sample.told}."
        )
    identified = f"Tells events apart in all {sample.records:,} records of the sample: is that so for all events?"
    unknown = (
        "? No column, and no two, tell all records of the sample apart, or some lack them: name those that should."
    )
    options = ", ".join(f"{key}: {_scalar(value)}" for key, value in sample.options.items())
    return {
        "format": sample.format,
        "path": path,
        "options": f"  options: {{{options}}}\n" if options else "",
        "schema": ",\n".join(f"    {_ddl_name(column)} {kind}" for column, kind in sample.columns.items()),
        "id_comment": identified if sample.event_id else unknown,
        "event_id": ", ".join(map(_scalar, sample.event_id or list(sample.columns)[:1])),
        "event_time": _scalar(sample.event_time),
    }


def _landing(name: str) -> str:
    return f"${{{HOME_VARIABLE}}}/landing/{name}"


def write_definition(text: str, name: str, folder: Path) -> Path:
    """Write a definition into the pipelines' folder, if it is right, and there is none of that name; its schema, too.

    Returns:
        the file.

    Raises:
        FreshetError: it is no pipeline's name, or there is such a pipeline already, or another one reads the folder
            that was chosen for it.
        PipelineDefinitionError: the definition is wrong; nothing is left of it.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise FreshetError(f"{name!r} is no pipeline's name. Allowed are letters, digits and _, and no digit first.")
    file = folder / f"{name}.yaml"
    if name in {path.stem for path in definition_files(folder)}:
        raise FreshetError(
            f"There is a pipeline {name!r} in {folder} already. Choose another name, or remove its file."
        )
    writing = folder / f".{name}.yaml" / file.name  # loaded by its own name, and seen by nothing else until it is right
    writing.parent.mkdir()
    try:
        writing.write_text(text, encoding="utf-8")
        _refuse_folders_of_others(load_definition(writing), folder)
        writing.rename(file)
        write_schema(folder)
    finally:
        writing.unlink(missing_ok=True)
        writing.parent.rmdir()
    return file


def _refuse_folders_of_others(definition: PipelineDefinition, folder: Path) -> None:
    """Each pipeline would load the other's events. A folder that the user has named may be read by several."""
    chosen = _expanded(_landing(definition.name))
    own = {path for path in _folders(definition) if path == chosen or path.startswith(f"{chosen}/")}
    for file in definition_files(folder):
        with suppress(PipelineDefinitionError):
            for path in sorted(own.intersection(_folders(load_definition(file)))):
                raise FreshetError(
                    f"{file.name} reads {path} already, and would load the events of {definition.name!r} as well. "
                    "Choose another name, or another folder by --path."
                )


def _folders(definition: PipelineDefinition) -> Iterator[str]:
    """The landing folders of a pipeline, absolute where the home is known."""
    for source in definition.streams.values():
        if source.kind.name == "files":
            yield _expanded(source.settings)


def _expanded(path: str) -> str:
    return posixpath.normpath(os.path.expandvars(path))


def _fact_columns(origins: list[str], *own: str) -> str:
    """Column of the table: column of the event; in small letters, digits and _, as SQL writes names unquoted.

    Args:
        origins: columns of the events.
        own: columns that the template has.
    """
    columns: dict[str, str] = {}
    for origin in origins:
        plain = re.sub(r"\W+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", origin)).strip("_").lower() or "column"
        plain = f"_{plain}" if plain[0].isdigit() else plain
        while plain in columns or plain in own:
            plain += "_"
        columns[plain] = origin
    return "\n".join(f"    {_scalar(column)}: {_scalar(origin)}" for column, origin in columns.items())


def _ddl_name(name: str) -> str:
    if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        return name
    if shown_text(name) != name or "`" in name:
        raise FreshetError(f"The sample has a column {shown_text(name)!r}: such a name can't be written in a schema.")
    return f"`{name}`"


def _scalar(text: str) -> str:
    """A text as YAML takes it within a list or mapping, as a key, too."""
    is_plain = re.fullmatch(r"[A-Za-z_][\w.]*", text, re.ASCII) and yaml.safe_load(text) == text
    return text if is_plain else json.dumps(text)
