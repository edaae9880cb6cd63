"""Writes the definition of a new pipeline: commented YAML, from a sample of its events."""

from __future__ import annotations

import json
import re
from pathlib import Path

from spark_jobs.authoring.sample import Sample
from spark_jobs.authoring.yaml_schema import FIRST_LINE, write_schema
from spark_jobs.definition import load_definition
from spark_jobs.definition.pipeline_files import definition_files
from spark_jobs.errors import FreshetError
from spark_jobs.settings import HOME_VARIABLE

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
    if sample.event_time is None:
        kinds = ", ".join(f"{column} {kind}" for column, kind in sample.columns.items())
        raise FreshetError(
            f"{origin} has no column of timestamps without nulls, and freshness is measured from one. A timestamp is "
            f"written as 2024-12-31T23:59:59Z. Columns: {kinds}."
        )
    identified = f"Tells events apart in all {sample.records:,} records of the sample: is that so for all events?"
    unknown = "? No column, and no two, tell the sample's records apart: name those that do."
    columns = _fact_columns(list(sample.columns))
    options = ""
    if sample.options:
        options = f"  options: {{{', '.join(f'{key}: {_scalar(value)}' for key, value in sample.options.items())}}}\n"
    return _TEMPLATE.format(
        first_line=FIRST_LINE,
        sample=origin,
        records=sample.records,
        name=name,
        format=sample.format,
        path=path or f"${{{HOME_VARIABLE}}}/landing/{name}",
        options=options,
        schema=",\n".join(f"    {_ddl_name(column)} {kind}" for column, kind in sample.columns.items()),
        id_comment=identified if sample.event_id else unknown,
        event_id=", ".join(map(_scalar, sample.event_id or list(sample.columns)[:1])),
        event_time=_scalar(sample.event_time),
        table=table or f"warehouse.{name}",
        columns="\n".join(f"    {_scalar(column)}: {_scalar(origin)}" for column, origin in columns.items()),
    )


def write_definition(text: str, name: str, folder: Path) -> Path:
    """Write a definition into the pipelines' folder, if it is right, and there is none of that name; its schema, too.

    Returns:
        the file.

    Raises:
        FreshetError: there is such a pipeline already.
        PipelineDefinitionError: the definition is wrong; nothing is left of it.
    """
    file = folder / f"{name}.yaml"
    if name in {path.stem for path in definition_files(folder)}:
        raise FreshetError(
            f"There is a pipeline {name!r} in {folder} already. Choose another name, or remove its file."
        )
    writing = folder / f".{name}.yaml" / file.name  # loaded by its own name, and seen by nothing else until it is right
    writing.parent.mkdir()
    try:
        writing.write_text(text, encoding="utf-8")
        load_definition(writing)
        writing.rename(file)
        write_schema(folder)
    finally:
        writing.unlink(missing_ok=True)
        writing.parent.rmdir()
    return file


def _fact_columns(names: list[str]) -> dict[str, str]:
    """Column of the table -> column of the event: in small letters, digits and _, as SQL writes names unquoted."""
    columns: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"\W+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)).strip("_").lower() or "column"
        plain = f"_{plain}" if plain[0].isdigit() else plain
        while plain in columns or plain == "batch_no":
            plain += "_"
        columns[plain] = name
    return columns


def _ddl_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else f"`{name}`"


def _scalar(text: str) -> str:
    """A text as YAML takes it within a list or mapping."""
    return (
        text if re.fullmatch(r"[A-Za-z_][\w.]*", text, re.ASCII) and text not in {"true", "null"} else json.dumps(text)
    )
