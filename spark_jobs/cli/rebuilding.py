"""Commands that make anew what a pipeline keeps beside the warehouse."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from spark_jobs.cli.opening import connected, opened
from spark_jobs.cli.options import Pipeline
from spark_jobs.cli.terminal import console, error_console
from spark_jobs.settings import home


def rebuild_cache(
    pipeline: Pipeline,
    *,
    lookup: Annotated[
        list[str] | None,
        typer.Option(metavar="RELATION", help="Only lookups of this relation; may be given several times."),
    ] = None,
    hot: Annotated[bool, typer.Option("--hot/--no-hot", help="Rebuild the hot tuples of front stages.")] = True,
    snapshot: Annotated[
        bool, typer.Option("--snapshot/--no-snapshot", help="Make new snapshots for lookups that read one.")
    ] = True,
) -> None:
    """Read anew what a pipeline keeps of its master data, here in the foreground; safe beside its stream."""
    with opened(pipeline) as (definition, url):
        from spark_jobs.lookup.hot_keys.rebuild import RebuildRequest
        from spark_jobs.rebuild_cache import rebuild

        request = RebuildRequest(tuple(lookup or ()), hot_tuples=hot, snapshots=snapshot)
        for line in rebuild(definition, url, request):
            console.print(line, highlight=False, soft_wrap=True)


def rebuild_state(pipeline: Pipeline) -> None:
    """Make the lost or damaged state of a join of several streams anew, from the landed files; drain it first."""

    def say(line: str) -> None:
        error_console.print(line, highlight=False)

    with opened(pipeline) as (definition, url), connected(url) as connection:
        from spark_jobs.reprocessing import state_rebuilding

        rebuilt = state_rebuilding.rebuild_state(connection, definition, home(), os.cpu_count() or 1, say)
    if rebuilt is None:
        console.print(f"Nothing is missing of the state of {pipeline}.")
    else:
        console.print(
            f"{rebuilt.buckets} of {rebuilt.of} buckets of the state of {pipeline} are made anew, at version "
            f"{rebuilt.version}: {rebuilt.records:,} records of {rebuilt.batches:,} batches were taken again, "
            f"{rebuilt.waiting:,} events wait. Start the stream again.",
            highlight=False,
            soft_wrap=True,
        )
