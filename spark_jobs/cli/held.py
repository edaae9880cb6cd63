"""Commands about tuples that are not facts yet: why they are held or wait, and trying them again."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from typing import Annotated, TypeVar

import typer

from spark_jobs.cli.opening import connected, opened
from spark_jobs.cli.options import Pipeline, Since, ago
from spark_jobs.cli.terminal import console, say
from spark_jobs.settings import home

YIELDED_STATUS = 3
Known = TypeVar("Known", bound=str)


def reprocess(
    pipeline: Pipeline,
    *,
    place: Annotated[
        list[str] | None,
        typer.Option(help="From where to take tuples; may be given several times.", show_default="both"),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Tuples to take at most.", show_default="the pipeline's")
    ] = None,
    algorithm: Annotated[str, typer.Option(help="auto, or a name of the catalogue, for every lookup.")] = "auto",
    all_unmatched: Annotated[
        bool, typer.Option("--all-unmatched", help="Retry unmatched tuples whose next try is not due yet, too.")
    ] = False,
    no_yield: Annotated[bool, typer.Option("--no-yield", help="Go on even while the stream is overloaded.")] = False,
) -> None:
    """Load shed tuples of a pipeline and retry unmatched ones, here in the foreground; safe beside its stream.

    Exit status 3 if it has yielded to the stream, which runs and is overloaded: tuples are left.
    """
    from spark_jobs.definition.fates import WAITING_PLACES
    from spark_jobs.reprocessing.request import BATCH_ALGORITHMS, ReprocessingRequest

    places = _places(place, WAITING_PLACES)
    if algorithm not in BATCH_ALGORITHMS:
        raise typer.BadParameter(f"{algorithm!r} is not allowed. Allowed: {', '.join(BATCH_ALGORITHMS)}.")
    with opened(pipeline) as (definition, url):
        from spark_jobs.reprocess_shed import reprocess as run_reprocess

        request = ReprocessingRequest(
            limit=limit or definition.reprocessing.limit,
            places=places,
            algorithm=algorithm,
            all_unmatched=all_unmatched,
            yields=not no_yield,
            by=getpass.getuser(),
        )
        end = run_reprocess(definition, url, request)
    if end.state == "yielded":
        console.print(
            f"The run has yielded to the stream, which has no time to spare: {end.reason}. {end.left:,} due tuples are "
            "left. Run it again later, or now with --no-yield.",
            soft_wrap=True,
        )
        raise typer.Exit(YIELDED_STATUS)
    console.print(f"The run is {end.state}; `freshet status` shows what became of the tuples.")
    if end.put_off is not None and end.put_off.tuples:
        console.print(f"{end.put_off}.", soft_wrap=True, highlight=False)


def requeue(
    pipeline: Pipeline,
    *,
    reason: Annotated[
        str,
        typer.Option(metavar="TEXT", help="Only tuples whose reason contains this; `freshet held` shows the reasons."),
    ],
    since: Since = None,
) -> None:
    """Retry rejected tuples of a pipeline, once what refused them is fixed; reprocessing loads them."""
    from spark_jobs.reprocessing.requeue import requeue as run_requeue

    with opened(pipeline) as (definition, url), connected(url) as connection:
        done = run_requeue(connection, definition.name, reason, ago(since), by=getpass.getuser())
    told = f"{done.tuples:,} rejected tuples wait to be reprocessed: `freshet reprocess {definition.name}` does it now."
    if done.hopeless:
        told += f" {done.hopeless:,} stay rejected: such records can't become facts."
    if done.unjoined:
        told += f" {done.unjoined:,} came late: reprocessing joins them without this, once it can."
    console.print(told, soft_wrap=True, highlight=False)


def held(
    pipeline: Pipeline,
    *,
    place: Annotated[
        list[str] | None,
        typer.Option(help="shed, unmatched or rejected; may be given several times.", show_default="all"),
    ] = None,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Only tuples whose reason contains this.", show_default="any")
    ] = "",
    text: Annotated[
        str, typer.Option(metavar="TEXT", help="Only tuples whose record contains this.", show_default="any")
    ] = "",
    since: Since = None,
    samples: Annotated[int, typer.Option(min=0, help="Show so many of the tuples, the newest first.")] = 0,
    forget: Annotated[
        bool, typer.Option("--forget", help="Delete them for good; who did it, and when, is noted.")
    ] = False,
) -> None:
    """Show why tuples of a pipeline are held, and which keys are missing; or forget those that are no use.

    A forgotten event does not become a fact, and is a duplicate if it is sent again; the ledger and `verify` know it.
    """
    from spark_jobs.definition.fates import PLACES
    from spark_jobs.reprocessing import held_tuples

    places = _places(place, PLACES)
    if forget and not (place or reason or text):
        raise typer.BadParameter("--forget would delete all that is held: say which, by --place, --reason or --text.")
    with opened(pipeline) as (definition, url), connected(url) as connection:
        chosen = held_tuples.HeldFilter(definition.name, places, reason, text, ago(since))
        if forget:
            count = held_tuples.forget(connection, chosen, getpass.getuser())
            console.print(f"{count:,} held tuples are forgotten.", highlight=False)
            return
        lookups = [(lookup.relation, list(lookup.on)) for lookup in definition.lookups]
        groups = held_tuples.held_groups(connection, chosen, lookups)
        shown = held_tuples.held_samples(connection, chosen, samples) if samples else []
    for line in [group.in_words for group in groups] or ["nothing is held"]:
        say(line)
    for sample in shown:
        say(sample.in_words)


def waiting(
    pipeline: Pipeline,
    *,
    stream: Annotated[str | None, typer.Option(help="Only events of this stream.", show_default="all")] = None,
    text: Annotated[
        str, typer.Option(metavar="TEXT", help="Only events whose record contains this.", show_default="any")
    ] = "",
    samples: Annotated[int, typer.Option(min=0, help="Show so many events of each stream, the oldest first.")] = 0,
) -> None:
    """Show which events of several streams wait to be joined, since when, and until when they may find a partner."""
    with opened(pipeline) as (definition, url), connected(url) as connection:
        from spark_jobs.reprocessing.waiting_events import waiting_events

        found = waiting_events(connection, definition, home(), stream=stream, text=text, samples=samples)
    for each in found:
        say(each.in_words)
    for each in found:
        for event in each.samples:
            say(f"{each.stream}  {event.in_words}")


def _places(chosen: list[str] | None, allowed: Sequence[Known]) -> tuple[Known, ...]:
    """The places that were chosen, in the table's order; all that are allowed, if none was."""
    if unknown := set(chosen or []) - set(allowed):
        raise typer.BadParameter(f"{min(unknown)!r} is no place. Allowed: {', '.join(allowed)}.")
    return tuple(known for known in allowed if known in (chosen or allowed))
