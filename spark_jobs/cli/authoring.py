"""Commands for who writes a pipeline's definition."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.cli.opening import connected
from spark_jobs.cli.options import Pipeline
from spark_jobs.cli.terminal import console, say
from spark_jobs.errors import FreshetError
from spark_jobs.settings import home
from spark_jobs.shown_text import shown_lines

MISFIT_STATUS = 1


def new(
    name: Annotated[str, typer.Argument(metavar="PIPELINE", help="Name of the new pipeline.")],
    *,
    samples: Annotated[
        list[str],
        typer.Option(
            "--from",
            metavar="[STREAM=]FILE",
            help="A file with some of its events: JSON lines, CSV or Parquet. Of several streams, STREAM=FILE of each.",
        ),
    ],
    path: Annotated[
        str | None,
        typer.Option(
            help="Folder in which its files arrive; of one stream.", show_default="landing/PIPELINE of the home"
        ),
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="SCHEMA.TABLE", help="Its fact table.", show_default="warehouse.PIPELINE")
    ] = None,
) -> None:
    """Write the definition of a new pipeline from a sample of its events, with comments, into the pipelines' folder."""
    from spark_jobs.authoring.new_pipeline import definition_text, streams_text, write_definition
    from spark_jobs.authoring.sample import read_sample
    from spark_jobs.settings import pipelines_folder

    if len(samples) == 1:
        sample = Path(samples[0])
        text = definition_text(name, read_sample(sample), sample.name, path=path, table=table)
    else:
        if path is not None:
            raise FreshetError("--path is of one stream. Leave it out, and write each stream's path into the file.")
        files = {stream: Path(file) for stream, _, file in (each.partition("=") for each in samples)}
        if len(files) < len(samples) or not all(file.name for file in files.values()):
            raise FreshetError(
                f"--from {' --from '.join(samples)}: of several streams, each sample is written with the name of its "
                "stream, as in --from orders=orders.json --from payments=payments.json."
            )
        text = streams_text(name, {stream: (read_sample(f), f.name) for stream, f in files.items()}, table=table)
    file = write_definition(text, name, pipelines_folder())
    console.print(f"{file} is written. Read it; its first lines say how to go on.", soft_wrap=True, highlight=False)


def ddl(pipeline: Pipeline) -> None:
    """Write SQL that makes the fact table of a pipeline, as `freshet psql` takes it."""
    from spark_jobs.authoring.fact_ddl import fact_ddl, fetched_types
    from spark_jobs.definition import load_definition

    definition = load_definition(pipeline)
    if definition.lookups:
        with connected() as connection:
            fetched = fetched_types(connection, definition)
    else:
        fetched = {}
    written = fact_ddl(definition, fetched)
    typer.echo(shown_lines(written) if sys.stdout.isatty() else written)  # psql takes it as it is


def reference() -> None:
    """Write all keys of a pipeline's definition, with defaults and examples, as Markdown."""
    from spark_jobs.authoring import reference as keys

    typer.echo(keys.reference(), nl=False)


def dbt_sources() -> None:
    """Write the fact tables of all pipelines as sources of dbt, with keys and freshness: a sources.yml."""
    from spark_jobs.authoring import dbt_sources as dbt
    from spark_jobs.definition import load_definitions

    typer.echo(dbt.dbt_sources(load_definitions().values()), nl=False)


def check(pipeline: Pipeline) -> None:
    """Tell all that can be told of a pipeline before it starts: whether it fits the warehouse, and what it will do.

    Exit status 1 if it can't load as it is. Nothing is changed.
    """
    from spark_jobs.definition import load_definition, spelling_notes

    definition = load_definition(pipeline)  # What is wrong in it is told with the note.
    for note in spelling_notes([pipeline]):
        say(note, style="yellow")
    from spark_jobs.authoring.check import check_pipeline
    from spark_jobs.local.warehouse_server import warehouse

    with warehouse(home(), create=False) as url:
        report = check_pipeline(definition, url, home())
    for note in report.notes:
        say(f"  {note}")
    for problem in report.problems:
        say(problem, style="red")
    if report.problems:
        raise typer.Exit(MISFIT_STATUS)
    console.print(f"Pipeline {definition.name} is ready to load.", highlight=False)
