"""The command about landed files that were not loaded."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated

import typer

from spark_jobs.cli.opening import connected, opened
from spark_jobs.cli.options import Pipeline
from spark_jobs.cli.terminal import say
from spark_jobs.errors import FreshetError
from spark_jobs.settings import home
from spark_jobs.shown_text import shown_text

if TYPE_CHECKING:
    from psycopg2 import extensions

    from spark_jobs.definition import PipelineDefinition
    from spark_jobs.source.kind import SourceStream

Files = list[str]


def source(
    pipeline: Pipeline,
    *,
    retry: Annotated[
        Files | None,
        typer.Option(metavar="FILE", help="Read this file again, whole, as it is now; may be given again."),
    ] = None,
    give_up: Annotated[
        Files | None,
        typer.Option(metavar="FILE", help="Don't wait any longer for this file, which is gone for good."),
    ] = None,
    dismiss: Annotated[
        Files | None,
        typer.Option(metavar="FILE", help="Tell no more of this file, which is not to be loaded; it may be gone."),
    ] = None,
) -> None:
    """Show the landed files of a pipeline that were not loaded, and why; have them read again, or give them up.

    A file that can't be read, or that was changed after it had been read, is set aside whole. For one that vanished
    before it was read the stream waits. What was loaded of a file is not stored twice when it is read again. A file
    that was dismissed counts nowhere any more, unless another one lands under its name, or it is read again.
    """
    from spark_jobs.ledger.files_not_loaded import troubled_ranges

    with opened(pipeline) as (definition, url), connected(url) as connection:
        _change(connection, definition, retry or [], give_up or [], dismiss or [])
        found = troubled_ranges(connection, definition.name)
    for each in found:
        told = f"{each.state:10}  {shown_text(each.unit + (f': {each.reason}' if each.reason else ''))}"
        if each.state == "set aside" and _is_gone(definition, each.unit):
            told += f" The file is gone: land it again, or --dismiss {shown_text(each.unit)}."
        say(told)
    if not found:
        say("all files that were read are loaded, or dismissed")


def _change(
    connection: extensions.connection, definition: PipelineDefinition, retry: Files, give_up: Files, dismiss: Files
) -> None:
    """Do as was asked with these files; a FreshetError says which one is not as it should be for that."""
    from spark_jobs.ledger import files_not_loaded
    from spark_jobs.source.files.names import unit_of

    name = definition.name
    for file in retry:
        read = _stream_of(definition, file)
        if read is not None and read.source.kind.is_log:
            text = f"{file}: {name} reads it from {read.source.kind.title}, where what is at an offset is read once."
            raise FreshetError(f"{text} Only files are read again.")
    for file in retry:
        if not files_not_loaded.ask_to_retry(connection, name, unit_of(file)):
            raise FreshetError(f"{file}: no file of this name was loaded or set aside by pipeline {name}.")
    for file in give_up:
        if not files_not_loaded.give_up(connection, name, unit_of(file), f"given up by {getpass.getuser()}"):
            raise FreshetError(
                f"{file}: pipeline {name} does not wait for a file of this name. "
                "If it was set aside, and is not to be loaded, --dismiss it."
            )
    for file in dismiss:
        if not files_not_loaded.dismiss(connection, name, unit_of(file)):
            raise FreshetError(f"{file}: no file of this name is set aside or lost by pipeline {name}.")


def _is_gone(definition: PipelineDefinition, unit: str) -> bool:
    from spark_jobs.source.kinds import kind_of

    stream = _stream_of(definition, unit)
    return stream is not None and kind_of(stream.source).is_gone(stream, unit.removeprefix(stream.prefix))


def _stream_of(definition: PipelineDefinition, unit: str) -> SourceStream | None:
    """The stream that reads a unit, by its name in the ledger; None where its stream is none of these."""
    from spark_jobs.definition.joined_tuple import STREAM_SEPARATOR
    from spark_jobs.source.kind import SourceStream

    names = {None, unit.partition(STREAM_SEPARATOR)[0]}
    return next((each for each in SourceStream.all_of(definition, home()) if each.name in names), None)
