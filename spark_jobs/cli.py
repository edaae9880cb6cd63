"""The `freshet` command. Each command imports what it needs when it runs, so that help comes at once."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
import typer.core
from rich.markup import escape

from spark_jobs.durations import parse_duration
from spark_jobs.errors import FreshetError
from spark_jobs.settings import home
from spark_jobs.shown_text import SafeConsole, shown_lines, shown_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from spark_jobs.ledger.status.pipeline_status import PipelineStatus
    from spark_jobs.workload.order_events import Written
    from spark_jobs.workload.rates import Phase

ERROR_STATUS = 2
LAW_BROKEN_STATUS = 1
EXPECTATION_FAILED_STATUS = 1
YIELDED_STATUS = 3
MISFIT_STATUS = 1
DEFAULT_SCALE = 0.1
DEFAULT_RATE = 200.0

# A file or a pipe has no width of its own; rich would squeeze tables into 80 columns.
console = SafeConsole(width=None if sys.stdout.isatty() else 140)
error_console = SafeConsole(stderr=True)


class _Commands(typer.core.TyperGroup):
    """Shows errors that are meant for people as messages, without a traceback."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        try:
            return super().invoke(ctx)
        except FreshetError as error:
            error_console.print(f"[bold red]Error:[/] {escape(str(error))}", soft_wrap=True, highlight=False)
            raise typer.Exit(ERROR_STATUS) from error


app = typer.Typer(
    cls=_Commands,
    rich_markup_mode="markdown",
    help="Loads facts into a PostgreSQL warehouse seconds after they happen.\n\n"
    "Begin with `freshet up`: it brings up everything and streams TPC-H orders. State lives in FRESHET_HOME "
    "(default: .freshet in the current folder). FRESHET_WAREHOUSE_URL names a PostgreSQL server to load into "
    "(default: an embedded one, in the home).",
    add_completion=False,
    pretty_exceptions_enable=False,
)
bench = typer.Typer(help="Measure Freshet on this machine.", no_args_is_help=True)
app.add_typer(bench, name="bench")


def _duration(value: str | timedelta) -> timedelta:
    """Value of an option; defaults, which are durations already, come through here too."""
    if isinstance(value, timedelta):
        return value
    try:
        return parse_duration(value)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _ago(age: timedelta | None) -> datetime | None:
    return None if age is None else datetime.now(UTC) - age


def _multiple(value: str | float) -> float:
    """A factor such as `3x`, or just 3."""
    try:
        return float(value.lower().removesuffix("x")) if isinstance(value, str) else value
    except ValueError as error:
        raise typer.BadParameter(f"{value!r} is no factor. Write how many times, for example 3x") from error


def _phase(text: str) -> Phase:
    from spark_jobs.workload.rates import Phase

    start, _, rate = text.partition("=")
    try:
        return Phase(parse_duration(start), float(rate))
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is no phase. Write from when on, and orders per second: 60s=3000"
        ) from error


Pipeline = Annotated[str, typer.Argument(metavar="PIPELINE", help="Name of a pipeline, or path of its YAML file.")]
Duration = Annotated[
    timedelta | None,
    typer.Option("--for", parser=_duration, metavar="DURATION", help="End after this time, such as 120s or 1h30m."),
]
Rate = Annotated[float, typer.Option(help="Mean number of orders (or events) per second.")]
Scale = Annotated[float, typer.Option(help="TPC-H scale factor; 1 is 150,000 customers and 1.5 million orders.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"freshet {version('freshet')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _help_without_command(
    context: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version, and end.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def up(
    *,
    duration: Duration = None,
    scale: Scale = DEFAULT_SCALE,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of Airflow's UI, on this machine only.")] = 8080,
    rate: Rate = DEFAULT_RATE,
    overload: Annotated[
        float | None,
        typer.Option(
            parser=_multiple,
            metavar="FACTOR",
            help="A bad day of --for (300s if left out): a burst of this many times what the streams can carry, such "
            "as 3x, a dimension that changes meanwhile, and what was shed loaded afterwards. Exit status 1 if the "
            "platform does not withstand it.",
            show_default=False,
        ),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="File for the figures of a bad day, as JSON.", show_default=False)
    ] = None,
    source: Annotated[
        Literal["files", "kafka"],
        typer.Option(help="Orders and their lines land as files, or are records in topics of a broker of its own."),
    ] = "files",
    no_workload: Annotated[
        bool, typer.Option("--no-workload", help="Load your own pipelines only: no TPC-H, and none of its orders.")
    ] = False,
) -> None:
    """Bring up everything and stream TPC-H orders into the warehouse, under Airflow, until Ctrl-C.

    Then it drains the streams, stops all that it started, and proves what was loaded: exit status 0 only if the
    proof holds. The next `freshet up` picks up where this one left off.
    """
    from spark_jobs.local.up import run_up

    if figures is not None and overload is None:
        raise typer.BadParameter("--figures belong to a bad day: give --overload, too")
    if source == "kafka" and overload is not None:
        raise typer.BadParameter("a bad day is one of files: leave out --overload, or --source kafka")
    if no_workload and (source == "kafka" or overload is not None):
        raise typer.BadParameter("--overload and --source kafka are about the workload: leave out --no-workload")
    status = run_up(
        *(duration, scale, port),
        console=console,
        rate=rate,
        overload=overload,
        figures_file=figures,
        kafka=source == "kafka",
        with_workload=not no_workload,
    )
    raise typer.Exit(status)


@app.command()
def load(
    pipelines: Annotated[
        list[str],
        typer.Argument(
            metavar="PIPELINE", help="Names of pipelines, paths of their files, or names of drivers that they share."
        ),
    ],
    *,
    once: Annotated[bool, typer.Option("--once", help="Load what has landed, then end.")] = False,
    master: Annotated[
        str | None,
        typer.Option(show_default="all cores of this machine", help="Spark master, such as spark://host:7077."),
    ] = None,
) -> None:
    """Run the Spark job of pipelines here in the foreground, without Airflow, until Ctrl-C; then show their status."""
    from spark_jobs.definition import load_named

    definitions = load_named(pipelines)  # a wrong name is reported before the heavy imports
    from spark_jobs.ledger.status.table import StatusTable
    from spark_jobs.local.warehouse_server import warehouse
    from spark_jobs.stream_load import load as run_load

    with warehouse(home(), create=False) as url:
        run_load(pipelines, url, once=once, master=master)
        console.print(StatusTable([each for each in _statuses(url) if each.name in definitions]))


@app.command()
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
    import getpass

    from spark_jobs.definition import load_definition

    definition = load_definition(pipeline)  # a wrong name is reported before the heavy imports
    from spark_jobs.definition.fates import WAITING_PLACES
    from spark_jobs.reprocessing.request import BATCH_ALGORITHMS, ReprocessingRequest

    if unknown := set(place or []) - set(WAITING_PLACES):
        raise typer.BadParameter(f"{min(unknown)!r} is no place. Allowed: {', '.join(WAITING_PLACES)}.")
    if algorithm not in BATCH_ALGORITHMS:
        raise typer.BadParameter(f"{algorithm!r} is not allowed. Allowed: {', '.join(BATCH_ALGORITHMS)}.")
    request = ReprocessingRequest(
        limit=limit or definition.reprocessing.limit,
        places=tuple(known for known in WAITING_PLACES if known in (place or WAITING_PLACES)),
        algorithm=algorithm,
        all_unmatched=all_unmatched,
        yields=not no_yield,
        by=getpass.getuser(),
    )
    from spark_jobs.local.warehouse_server import warehouse
    from spark_jobs.reprocess_shed import reprocess as run_reprocess

    with warehouse(home(), create=False) as url:
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


@app.command()
def requeue(
    pipeline: Pipeline,
    *,
    reason: Annotated[
        str,
        typer.Option(metavar="TEXT", help="Only tuples whose reason contains this; `freshet held` shows the reasons."),
    ],
    since: Annotated[
        timedelta | None,
        typer.Option(parser=_duration, metavar="DURATION", help="Only what arrived in this time, such as 2h."),
    ] = None,
) -> None:
    """Retry rejected tuples of a pipeline, once what refused them is fixed; reprocessing loads them."""
    import getpass
    from contextlib import closing

    from spark_jobs.definition import load_definition
    from spark_jobs.local.warehouse_server import warehouse
    from spark_jobs.reprocessing.requeue import requeue as run_requeue
    from spark_jobs.warehouse.connection import connect

    name = load_definition(pipeline).name
    with warehouse(home(), create=False) as url, closing(connect(url)) as connection:
        done = run_requeue(connection, name, reason, _ago(since), by=getpass.getuser())
    told = f"{done.tuples:,} rejected tuples wait to be reprocessed: `freshet reprocess {name}` does it now."
    if done.hopeless:
        told += f" {done.hopeless:,} stay rejected: such records can't become facts."
    if done.unjoined:
        told += f" {done.unjoined:,} came late: reprocessing joins them without this, once it can."
    console.print(told, soft_wrap=True, highlight=False)


@app.command()
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
    since: Annotated[
        timedelta | None,
        typer.Option(parser=_duration, metavar="DURATION", help="Only what arrived in this time, such as 2h."),
    ] = None,
    samples: Annotated[int, typer.Option(min=0, help="Show so many of the tuples, the newest first.")] = 0,
    forget: Annotated[
        bool, typer.Option("--forget", help="Delete them for good; who did it, and when, is noted.")
    ] = False,
) -> None:
    """Show why tuples of a pipeline are held, and which keys are missing; or forget those that are no use.

    A forgotten event does not become a fact, and is a duplicate if it is sent again; the ledger and `verify` know it.
    """
    import getpass
    from contextlib import closing
    from typing import get_args

    from spark_jobs.definition import load_definition
    from spark_jobs.definition.fates import Place
    from spark_jobs.local.warehouse_server import warehouse
    from spark_jobs.reprocessing import held_tuples
    from spark_jobs.warehouse.connection import connect

    places = get_args(Place)
    if unknown := set(place or []) - set(places):
        raise typer.BadParameter(f"{min(unknown)!r} is no place. Allowed: {', '.join(places)}.")
    if forget and not (place or reason or text):
        raise typer.BadParameter("--forget would delete all that is held: say which, by --place, --reason or --text.")
    definition = load_definition(pipeline)
    wanted = tuple(known for known in places if known in (place or places))
    chosen = held_tuples.HeldFilter(definition.name, wanted, reason, text, _ago(since))
    with warehouse(home(), create=False) as url, closing(connect(url)) as connection:
        if forget:
            count = held_tuples.forget(connection, chosen, getpass.getuser())
            console.print(f"{count:,} held tuples are forgotten.", highlight=False)
            return
        lookups = [(lookup.relation, list(lookup.on)) for lookup in definition.lookups]
        groups = held_tuples.held_groups(connection, chosen, lookups)
        shown = held_tuples.held_samples(connection, chosen, samples) if samples else []
    for group in groups:
        keys = f" (most often {', '.join(f'{key}: {count:,}' for key, count in group.keys)})" if group.keys else ""
        hopeless = f" [{group.hopeless:,} can't become facts]" if group.hopeless else ""
        unread = f" [{group.unread:,} could not be read: correct the schema, then requeue]" if group.unread else ""
        unjoined = f" [{group.unjoined:,} wait to be joined]" if group.unjoined else ""
        why = shown_text(group.reason + keys)
        waits = "requeued" if group.requeued == group.tuples else group.place
        told = f"{group.tuples:>12,}  {waits:9}  {why}{hopeless}{unread}{unjoined}"
        console.print(told, soft_wrap=True, highlight=False, markup=False)
    if not groups:
        console.print("nothing is held", highlight=False)
    for each in shown:
        where = f"{each.source_unit}:{each.source_position}" if each.source_unit else ""
        told = f"{shown_text(f'{each.event_id}  {where}  {each.reason}')}\n    {shown_text(str(each.payload))}"
        console.print(told, soft_wrap=True, highlight=False, markup=False)


@app.command()
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
    from contextlib import closing

    from spark_jobs.definition import load_definition
    from spark_jobs.local.warehouse_server import warehouse
    from spark_jobs.reprocessing.waiting_events import waiting_events
    from spark_jobs.warehouse.connection import connect

    definition = load_definition(pipeline)
    with warehouse(home(), create=False) as url, closing(connect(url)) as connection:
        found = waiting_events(connection, definition, home(), stream=stream, text=text, samples=samples)
    for each in found:
        times = f"  {each.oldest:%Y-%m-%d %H:%M:%S} to {each.newest:%Y-%m-%d %H:%M:%S} UTC" if each.oldest else ""
        console.print(f"{each.events:>12,}  {each.stream}{times}", soft_wrap=True, highlight=False, markup=False)
    for each in found:
        for event in each.samples:
            until = f" until {event.until:%Y-%m-%d %H:%M:%S}" if event.until else ""
            record = shown_text(str(event.record))
            told = f"{each.stream}  {event.event_time:%Y-%m-%d %H:%M:%S}{until} UTC\n    {record}"
            console.print(told, soft_wrap=True, highlight=False, markup=False)


@app.command()
def source(
    pipeline: Pipeline,
    *,
    retry: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Read this file again, whole, as it is now; may be given again."),
    ] = None,
    give_up: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Don't wait any longer for this file, which is gone for good."),
    ] = None,
    dismiss: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Tell no more of this file, which is not to be loaded; it may be gone."),
    ] = None,
) -> None:
    """Show the landed files of a pipeline that were not loaded, and why; have them read again, or give them up.

    A file that can't be read, or that was changed after it had been read, is set aside whole. For one that vanished
    before it was read the stream waits. What was loaded of a file is not stored twice when it is read again. A file
    that was dismissed counts nowhere any more, unless another one lands under its name, or it is read again.
    """
    import getpass
    from contextlib import closing

    from spark_jobs.definition import load_definition
    from spark_jobs.definition.correlation import STREAM_SEPARATOR
    from spark_jobs.ledger import files_not_loaded
    from spark_jobs.local.warehouse_server import warehouse
    from spark_jobs.source.files.names import unit_of
    from spark_jobs.source.kind import SourceStream
    from spark_jobs.source.kinds import kind_of
    from spark_jobs.warehouse.connection import connect

    definition = load_definition(pipeline)
    name = definition.name

    def is_gone(unit: str) -> bool:
        stream, _, of_stream = unit.rpartition(STREAM_SEPARATOR)
        read = (definition.streams or {}).get(stream, definition.source)
        return kind_of(read).is_gone(SourceStream(name, read, home()), of_stream)

    for file in retry or []:
        of_stream = (definition.streams or {}).get(file.partition(STREAM_SEPARATOR)[0], definition.source)
        if of_stream.kind.is_log:
            text = f"{file}: {name} reads it from {of_stream.kind.title}, where what is at an offset is read once."
            raise FreshetError(f"{text} Only files are read again.")
    with warehouse(home(), create=False) as url, closing(connect(url)) as connection:
        for file in retry or []:
            if not files_not_loaded.ask_to_retry(connection, name, unit_of(file)):
                raise FreshetError(f"{file}: no file of this name was loaded or set aside by pipeline {name}.")
        for file in give_up or []:
            if not files_not_loaded.give_up(connection, name, unit_of(file), f"given up by {getpass.getuser()}"):
                raise FreshetError(
                    f"{file}: pipeline {name} does not wait for a file of this name. "
                    "If it was set aside, and is not to be loaded, --dismiss it."
                )
        for file in dismiss or []:
            if not files_not_loaded.dismiss(connection, name, unit_of(file)):
                raise FreshetError(f"{file}: no file of this name is set aside or lost by pipeline {name}.")
        found = files_not_loaded.troubled_ranges(connection, name)
    for each in found:
        told = f"{each.state:10}  {shown_text(each.unit + (f': {each.reason}' if each.reason else ''))}"
        if each.state == "set aside" and is_gone(each.unit):
            told += f" The file is gone: land it again, or --dismiss {shown_text(each.unit)}."
        console.print(told, soft_wrap=True, highlight=False, markup=False)
    if not found:
        console.print("all files that were read are loaded, or dismissed", highlight=False)


@app.command("rebuild-cache")
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
    from spark_jobs.definition import load_definition

    definition = load_definition(pipeline)  # a wrong name is reported before the heavy imports
    from spark_jobs.local.warehouse_server import warehouse
    from spark_jobs.lookup.hot_keys.rebuild import RebuildRequest
    from spark_jobs.rebuild_cache import rebuild

    request = RebuildRequest(tuple(lookup or ()), hot_tuples=hot, snapshots=snapshot)
    with warehouse(home(), create=False) as url:
        for line in rebuild(definition, url, request):
            console.print(line, highlight=False, soft_wrap=True)


@app.command("rebuild-state")
def rebuild_state(pipeline: Pipeline) -> None:
    """Make the lost or damaged state of a join of several streams anew, from the landed files; drain it first."""
    from spark_jobs.definition import load_definition

    definition = load_definition(pipeline)  # a wrong name is reported before the heavy imports
    import os
    from contextlib import closing

    from spark_jobs.local.warehouse_server import PATIENCE, warehouse
    from spark_jobs.reprocessing import state_rebuilding
    from spark_jobs.warehouse.connection import connect

    def say(line: str) -> None:
        error_console.print(line, highlight=False)

    with warehouse(home(), create=False) as url, closing(connect(url, patience=PATIENCE)) as connection:
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


@app.command()
def status(*, as_json: Json = False) -> None:
    """Show how fresh the warehouse is, and what became of the events of each pipeline."""
    from spark_jobs.ledger.status.pipeline_status import to_json
    from spark_jobs.ledger.status.table import StatusTable
    from spark_jobs.local.warehouse_server import warehouse_as
    from spark_jobs.local.warehouse_users import READING

    with warehouse_as(READING, home()) as url:
        statuses = _statuses(url)
    if as_json:
        typer.echo(to_json(statuses))
    elif statuses:
        console.print(StatusTable(statuses))
    else:
        console.print("No pipeline has run in this warehouse yet. Try `freshet up`, or `freshet load PIPELINE`.")


def _statuses(url: str) -> list[PipelineStatus]:
    from contextlib import closing

    from spark_jobs.ledger.status.pipeline_status import read_status
    from spark_jobs.local.warehouse_server import PATIENCE
    from spark_jobs.source.files.landing_look import ONE_LOOK, LandingLook
    from spark_jobs.warehouse.connection import connect

    with closing(connect(url, patience=PATIENCE)) as connection:
        return read_status(connection, look=LandingLook(home(), ONE_LOOK))


@app.command()
def metrics(
    *,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 9464,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Whoever reaches it can read the figures of all pipelines.")
    ] = "127.0.0.1",
) -> None:
    """Serve the figures of all pipelines to Prometheus, until Ctrl-C: lag, freshness, states, counts."""
    from spark_jobs.local.warehouse_server import warehouse_as
    from spark_jobs.local.warehouse_users import READING
    from spark_jobs.monitoring.prometheus import PipelineCollector, serving
    from spark_jobs.source.files.landing_look import LandingLook
    from spark_jobs.workload.stop_signal import StopSignal

    with (
        StopSignal() as stop,
        warehouse_as(READING, home()) as url,
        serving(PipelineCollector(url, LandingLook(home())), host, port) as address,
    ):
        console.print(f"Prometheus finds the metrics at {address}. Ctrl-C ends this.", highlight=False)
        while not stop.wait(3600.0):
            pass


@app.command()
def verify(
    pipeline: Pipeline,
    *,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit status 1 also if there are facts that can't be proved.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Prove that each landed event is in exactly one place, and that the facts equal the plain SQL join.

    Exit status 1 if not; the first events that differ are named.
    """
    from spark_jobs.definition import load_definition
    from spark_jobs.local.warehouse_server import warehouse
    from spark_jobs.proof.verification import verify as prove

    definition = load_definition(pipeline)
    with warehouse(home(), create=False) as url:
        proof = prove(definition, url, home())
    if as_json:
        typer.echo(proof.to_json())
    else:
        console.print(proof.render())
    proved = proof.holds and not (strict and proof.unprovable)
    raise typer.Exit(0 if proved else LAW_BROKEN_STATUS)


@app.command()
def validate(
    pipeline: Pipeline,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All facts, not only new ones.")] = False,
    first_batch: Annotated[int | None, typer.Option("--from-batch", help="Loads from this number on.")] = None,
    last_batch: Annotated[int | None, typer.Option("--to-batch", help="Loads up to this number.")] = None,
    since: Annotated[
        timedelta | None,
        typer.Option(parser=_duration, metavar="DURATION", help="What was loaded in this time, such as 2h."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check facts against the pipeline's expectations: those that were loaded since the last validation.

    Exit status 1 if an expectation failed, with how many facts and three examples.
    """
    from spark_jobs.definition import load_definition
    from spark_jobs.errors import NotValidatedError
    from spark_jobs.local.warehouse_server import warehouse_as
    from spark_jobs.local.warehouse_users import VALIDATING
    from spark_jobs.validation.selection import Selection
    from spark_jobs.validation.validate import validate_facts

    if [everything, (first_batch, last_batch) != (None, None), since is not None].count(True) > 1:
        raise typer.BadParameter("--all, --from-batch and --to-batch, --since: choose one of the three")
    if everything:
        selection = Selection(what="everything")
    elif since is not None:
        selection = Selection(what="loaded", loaded_from=_ago(since))
    elif (first_batch, last_batch) != (None, None):
        selection = Selection(what="batches", first_batch=first_batch, last_batch=last_batch)
    else:
        selection = Selection()
    definition = load_definition(pipeline)
    with warehouse_as(VALIDATING, home(), [definition]) as url:
        report = validate_facts(definition, url, home(), selection)
    if as_json:
        typer.echo(json.dumps(report.to_json(), indent=2, default=str))
    elif report.result != "error":
        console.print(escape(report.message), soft_wrap=True, highlight=False)
    if report.result == "error":
        raise NotValidatedError(report.message)
    raise typer.Exit(EXPECTATION_FAILED_STATUS if report.result == "failed" else 0)


@app.command()
def retire(pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="Name of a registered pipeline.")]) -> None:
    """Let another pipeline have the fact table of one that is no longer used, or that has a new name.

    What it has stored stays. To use it again, start it.
    """
    from contextlib import closing

    from spark_jobs.local.warehouse_server import PATIENCE, warehouse
    from spark_jobs.warehouse.connection import connect
    from spark_jobs.warehouse.registration import retire_pipeline

    with warehouse(home(), create=False) as url, closing(connect(url, patience=PATIENCE)) as connection:
        retire_pipeline(connection, pipeline)
    console.print(f"Pipeline {pipeline} is retired: its fact table may be another's.")


@app.command()
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


@app.command()
def ddl(pipeline: Pipeline) -> None:
    """Write SQL that makes the fact table of a pipeline, as `freshet psql` takes it."""
    from contextlib import closing

    from spark_jobs.authoring.fact_ddl import fact_ddl, fetched_types
    from spark_jobs.definition import load_definition
    from spark_jobs.local.warehouse_server import PATIENCE, warehouse
    from spark_jobs.warehouse.connection import connect

    definition = load_definition(pipeline)
    if definition.lookups:
        with warehouse(home(), create=False) as url, closing(connect(url, patience=PATIENCE)) as connection:
            fetched = fetched_types(connection, definition)
    else:
        fetched = {}
    written = fact_ddl(definition, fetched)
    typer.echo(shown_lines(written) if sys.stdout.isatty() else written)  # psql takes it as it is


@app.command("reference")
def write_reference() -> None:
    """Write all keys of a pipeline's definition, with defaults and examples, as Markdown."""
    from spark_jobs.authoring.reference import reference

    typer.echo(reference(), nl=False)


@app.command("dbt-sources")
def write_dbt_sources() -> None:
    """Write the fact tables of all pipelines as sources of dbt, with keys and freshness: a sources.yml."""
    from spark_jobs.authoring.dbt_sources import dbt_sources
    from spark_jobs.definition import load_definitions

    typer.echo(dbt_sources(load_definitions().values()), nl=False)


@app.command()
def check(pipeline: Pipeline) -> None:
    """Tell all that can be told of a pipeline before it starts: whether it fits the warehouse, and what it will do.

    Exit status 1 if it can't load as it is. Nothing is changed.
    """
    from spark_jobs.definition import load_definition

    definition = load_definition(pipeline)  # what is wrong in the file itself is told first
    from spark_jobs.authoring.check import check_pipeline
    from spark_jobs.local.warehouse_server import warehouse

    with warehouse(home(), create=False) as url:
        report = check_pipeline(definition, url, home())
    for note in report.notes:
        console.print(f"  {note}", soft_wrap=True, highlight=False, markup=False)
    for problem in report.problems:
        console.print(problem, soft_wrap=True, highlight=False, markup=False, style="red")
    if report.problems:
        raise typer.Exit(MISFIT_STATUS)
    console.print(f"Pipeline {definition.name} is ready to load.", highlight=False)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def psql(context: typer.Context) -> None:
    """Open psql on the warehouse; arguments are psql's own, such as -c 'SELECT ...' or -f FILE."""
    from spark_jobs.local.psql_shell import run_psql
    from spark_jobs.local.warehouse_server import warehouse

    with warehouse(home(), create=False) as url:
        status = run_psql(url, context.args)
    raise typer.Exit(status)


@app.command()
def migrate() -> None:
    """Bring the warehouse's schema to the newest version; safe at any time.

    Then its roles are granted their rights, and changes of the pipelines' master data are noted by triggers.
    """
    from contextlib import closing

    from spark_jobs.definition import load_definitions
    from spark_jobs.local.warehouse_server import PATIENCE, warehouse
    from spark_jobs.lookup.changes.triggers import unwatch_relations, watch_relations
    from spark_jobs.warehouse.connection import connect
    from spark_jobs.warehouse.migration import migrate as run_migrations
    from spark_jobs.warehouse.roles import grant_roles

    definitions = load_definitions().values()
    with warehouse(home()) as url:
        run_migrations(url)
        with closing(connect(url, patience=PATIENCE)) as connection:
            lacking = grant_roles(connection, definitions)
            lookups = [lookup for definition in definitions for lookup in definition.lookups]
            outcomes = watch_relations(connection, lookups)
            left = unwatch_relations(connection, lookups)
    for problem, who, statement in lacking:
        console.print(f"{escape(problem)}; let {escape(who)} run: {escape(statement)}", soft_wrap=True)
    for relation, outcome in sorted(outcomes.items()):
        if outcome.refusal is not None:
            console.print(f"No triggers note the changes of {relation}: {escape(outcome.refusal)}.", soft_wrap=True)
    for relation, reason in sorted(left.items()):
        if reason is not None:
            console.print(f"The triggers of {relation}, no longer used, stay: {escape(reason)}.", soft_wrap=True)
    console.print("The warehouse's schema is up to date.")


@app.command()
def seed(*, scale: Scale = DEFAULT_SCALE) -> None:
    """Generate TPC-H data and load its master data: customers, parts, suppliers."""
    from spark_jobs.local.terminal_progress import progress_bars
    from spark_jobs.local.warehouse_server import warehouse
    from spark_jobs.warehouse.migration import migrate as run_migrations
    from spark_jobs.workload.tpch import seed as run_seed
    from spark_jobs.workload.tpch_files import check_scale

    check_scale(scale)
    with warehouse(home()) as url:
        run_migrations(url)
        with progress_bars(console) as progress:
            run_seed(url, home(), scale, progress)
    console.print(f"The warehouse holds the master data of TPC-H, scale {scale:g}.")


@app.command()
def calibrate(
    pipeline: Annotated[
        str | None,
        typer.Argument(metavar="[PIPELINE]", help="Name of a pipeline, or path of its YAML file.", show_default=False),
    ] = None,
    *,
    disk: Annotated[
        Literal["postgres", "direct"] | None,
        typer.Option(
            show_default="postgres for a pipeline, else direct",
            help="Relations live in PostgreSQL, of all pipelines if none is named; or a local file, made up for this.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure what reading R and joining with it cost here: the constants by which `algorithm: auto` chooses.

    Only shows them: each Spark job measures for itself when it starts. Run nothing else beside it.
    """
    if pipeline is not None and disk == "direct":
        raise typer.BadParameter("a pipeline reads its relations from PostgreSQL; leave out either of the two")
    if pipeline is not None or disk == "postgres":
        from spark_jobs.definition import load_definition, load_definitions

        # A wrong name is reported before the heavy imports.
        definitions = [load_definition(pipeline)] if pipeline else list(load_definitions().values())
        from spark_jobs.experiments.calibration.relation_costs import calibrate_lookups
        from spark_jobs.local.warehouse_server import warehouse

        with warehouse(home(), create=False) as url:
            measured = calibrate_lookups(definitions, url)
    else:
        from spark_jobs.experiments.calibration.relation_costs import calibrate_local_disk

        measured = [calibrate_local_disk(home().root)]
    from spark_jobs.experiments.calibration.calibration_report import render, to_json

    if as_json:
        typer.echo(to_json(measured))
    else:
        console.print(render(measured))


@app.command()
def generate(
    workload: Annotated[
        Literal["orders", "fulfilment", "auction_bids"],
        typer.Argument(
            help="orders: TPC-H orders and their lines; fulfilment: and their payments and shipments; auction_bids: "
            "Nexmark's persons, auctions and bids.",
        ),
    ] = "orders",
    *,
    rate: Rate = DEFAULT_RATE,
    bursty: Annotated[
        bool, typer.Option("--bursty/--steady", help="Arrivals in self-similar bursts, or evenly.")
    ] = True,
    zipf: Annotated[
        float, typer.Option(help="Skew of customers, parts and suppliers: Zipf exponent; 0 keeps TPC-H's own keys.")
    ] = 1.0,
    seed_: Annotated[int, typer.Option("--seed", help="Equal seeds give equal events, but for their times.")] = 1,
    phase: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DURATION=RATE",
            help="From this time on another rate, such as 60s=3000; may be given several times.",
        ),
    ] = None,
    duration: Duration = None,
    orders: Annotated[int | None, typer.Option(help="End after this number of orders, or of Nexmark's events.")] = None,
    bad_share: Annotated[
        float,
        typer.Option(help="Share of bad input to mix in: malformed, overflowing, null, duplicate, unknown keys..."),
    ] = 0.0,
    tick: Annotated[
        timedelta | None,
        typer.Option(
            parser=_duration,
            metavar="DURATION",
            show_default="500ms, or 20ms with --kafka",
            help="Time from one file to the next.",
        ),
    ] = None,
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,...",
            help="Brokers to whose topics orders and order_lines these are written, record by record, not as files.",
        ),
    ] = None,
    past: Annotated[
        bool,
        typer.Option(
            "--past",
            help="Write at once what --orders or --for would have brought by now; for the first run of a home, since "
            "events of a second one would be as old as those of the first.",
        ),
    ] = False,
    disorder: Annotated[
        timedelta,
        typer.Option(
            parser=_duration,
            metavar="DURATION",
            show_default="2s",
            help="Events of fulfilment and auction_bids land up to this much after they happened.",
        ),
    ] = timedelta(seconds=2),
    late_share: Annotated[float, typer.Option(help="Share of them that land ten minutes later.")] = 0.001,
    scale: Annotated[
        float | None, typer.Option(help="TPC-H scale to take orders from; needed only if several were generated.")
    ] = None,
) -> None:
    """Let events land, in real time, until Ctrl-C: TPC-H orders with all that belongs to them, or Nexmark's auctions.

    The events lie in folders of FRESHET_HOME/landing. A second run goes on with new ones. While orders are written, a
    number of orders per second in FRESHET_HOME/workload-rate steers it.
    """
    from spark_jobs.workload.auction_stream import AuctionStreamOptions, write_auction_stream
    from spark_jobs.workload.order_stream import OrderStreamOptions, write_order_stream
    from spark_jobs.workload.stop_signal import StopSignal
    from spark_jobs.workload.transit import Disorder

    pace: dict[str, Any] = {
        "rate": rate,
        "phases": [_phase(text) for text in phase or []],
        "bursty": bursty,
        "seed": seed_,
        "duration": duration,
        "tick": tick or timedelta(milliseconds=500 if kafka is None else 20),
        "past": past,
    }
    out_of_order = Disorder(disorder, late_share)
    with StopSignal() as stop, console.status("Getting ready ...") as line:

        def show(written: dict[str, Written]) -> None:
            line.update(", ".join(f"{name}: {part.events:,}" for name, part in written.items()))

        if workload == "auction_bids":
            auctions = AuctionStreamOptions(**pace, events=orders, disorder=out_of_order)
            totals = write_auction_stream(home(), auctions, stop, show)
        else:
            parts = out_of_order if workload == "fulfilment" else None
            options = OrderStreamOptions(
                **pace,
                zipf=zipf,
                orders=orders,
                bad_share=bad_share,
                scale=scale,
                fulfilment=parts,
                servers=kafka,
            )
            totals = write_order_stream(home(), options, stop, show)
    for name, written in totals.items():
        console.print(f"{name}: {written.events:,} events written", highlight=False)
        for defect, count in sorted(written.bad.items()):
            if count:
                console.print(f"  {defect}: {count:,}", highlight=False)


def _show(as_json: bool, measured: Any, table: RenderableType) -> None:
    """What a benchmark has measured, as JSON or as a table."""
    if as_json:
        typer.echo(json.dumps(measured, indent=2))
    else:
        console.print(table)


@bench.command("load")
def bench_load(
    *,
    as_json: Json = False,
    contender: Annotated[
        list[str] | None,
        typer.Option(help="Who loads, by name; may be given several times.", show_default="the quick ones"),
    ] = None,
    regime: Annotated[
        list[str] | None,
        typer.Option(help="fits, tenth, wide or changing; may be given several times.", show_default="fits"),
    ] = None,
    rows: Annotated[
        list[int] | None, typer.Option(help="Tuples of R; may be given several times.", show_default="2000000")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="What may be kept of R, such as 256MB.", show_default="by the regime")
    ] = None,
    cores: Annotated[
        list[int] | None,
        typer.Option(help="Cores of contender and server; may be given several times.", show_default="all"),
    ] = None,
    events: Annotated[
        int, typer.Option(min=1_000_000, help="Events that each run loads; 20 million make 15 batches or more.")
    ] = 4_000_000,
    repetitions: Annotated[int, typer.Option(min=1, help="Rounds; the median counts.")] = 5,
    minutes: Annotated[
        float | None, typer.Option(help="Begin no round that would end later.", show_default="no limit")
    ] = None,
    freshness: Annotated[bool, typer.Option(help="Measure freshness at half of the rate besides.")] = True,
) -> None:
    """Compare loading by Freshet with what one would write instead, with Spark's join, and with the limit of COPY.

    The regimes: all needed columns of R fit into the memory, or a tenth of them; tuples are wide; R changes meanwhile.

    Contenders of packages that Freshet does without need `uv run --group contenders freshet bench load`.

    Run nothing else beside it.
    """
    from spark_jobs.byte_sizes import parse_bytes
    from spark_jobs.experiments.load.case import CORES, cases
    from spark_jobs.experiments.load.contenders import chosen_contenders
    from spark_jobs.experiments.load.load_benchmark import render, run_load_benchmark

    try:
        limit = None if memory is None else parse_bytes(memory)
        chosen = cases(regime or ["fits"], rows or [2_000_000], cores or [CORES], events, limit)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    contenders = chosen_contenders(contender or [])
    result = run_load_benchmark(home(), chosen, contenders, repetitions, minutes, freshness, error_console.print)
    _show(as_json, result, render(result))


@bench.command("correlate")
def bench_correlate(
    *,
    as_json: Json = False,
    contender: Annotated[
        list[str] | None,
        typer.Option(
            help="Who joins: freshet, spark_rocksdb, spark_memory, duckdb or upsert; may be given several times. The "
            "last two need uv run --group contenders.",
            show_default="the first three",
        ),
    ] = None,
    regime: Annotated[
        list[str] | None,
        typer.Option(
            help="fits: the state fits into memory; tenth: a tenth of it does; three: a third stream, the auctions' "
            "ends; accumulate: rows of orders, which payments and shipments fill in. May be given several times.",
            show_default="fits",
        ),
    ] = None,
    events: Annotated[int, typer.Option(min=1_000_000, help="Events that each run joins.")] = 4_000_000,
    repetitions: Annotated[int, typer.Option(min=1, help="Rounds; the median counts.")] = 5,
    minutes: Annotated[
        float | None, typer.Option(help="Begin no round that would end later.", show_default="no limit")
    ] = None,
    freshness: Annotated[bool, typer.Option(help="Measure freshness at half of the rate besides.")] = True,
    waiting: Annotated[
        int, typer.Option(min=0, help="Measure recovery from kill -9 with so many tuples that wait; 0: don't.")
    ] = 0,
) -> None:
    """Compare joining streams by Freshet with Spark's own stream-stream join, and with what one would write instead.

    Takes about an hour and 8 GiB at full size. Run nothing else beside it.
    """
    from spark_jobs.experiments.correlate.contender_run import CONTENDERS
    from spark_jobs.experiments.correlate.correlate_benchmark import render, run_correlate_benchmark
    from spark_jobs.experiments.correlate.data import REGIMES

    contenders, regimes = contender or list(CONTENDERS[:3]), regime or ["fits"]
    for chosen, allowed in ((contenders, CONTENDERS), (regimes, REGIMES)):
        if unknown := set(chosen) - set(allowed):
            raise typer.BadParameter(f"{', '.join(sorted(unknown))}: allowed are {', '.join(allowed)}")
    result = run_correlate_benchmark(
        *(home(), regimes, contenders, events, repetitions, error_console.print),
        minutes=minutes,
        freshness=freshness,
        waiting=waiting,
    )
    _show(as_json, result, render(result))


@bench.command("pipelines")
def bench_pipelines(
    *,
    as_json: Json = False,
    pipelines: Annotated[int, typer.Option(min=2, help="How many.")] = 50,
    rate: Annotated[float, typer.Option(min=0.01, help="Events a second that land for each.")] = 1.0,
    seconds: Annotated[float, typer.Option(min=10, help="How long to measure, without events and with them.")] = 120,
) -> None:
    """Run many small pipelines in one driver: what they take of the machine, idle and with events, and how fresh.

    Run nothing else beside it.
    """
    from spark_jobs.experiments.pipelines.pipelines_benchmark import render, run_pipelines_benchmark

    result = run_pipelines_benchmark(home(), pipelines, rate, seconds, error_console.print)
    _show(as_json, result, render(result))


@bench.command("kernels")
def bench_kernels(
    *,
    as_json: Json = False,
    repetitions: Annotated[int, typer.Option(min=1, help="Rounds of each experiment; the median counts.")] = 7,
) -> None:
    """Measure the joins' own code, beside what it aims at: probes, refill, delete, emit, first call, hit ratio.

    Takes some minutes on one core. Run nothing else beside it.
    """
    from spark_jobs.experiments.kernels.kernel_benchmark import render, run_kernel_benchmark

    figures = run_kernel_benchmark(repetitions, error_console.print)
    _show(as_json, [figure.to_json() for figure in figures], render(figures, repetitions))


@bench.command("papers")
def bench_papers(
    *,
    figure: Annotated[
        list[str] | None,
        typer.Option(help="Paper and number, such as 000-10c; may be given several times.", show_default="all"),
    ] = None,
    disk: Annotated[
        str, typer.Option(help="Where R lies: virtual-hdd, virtual-ssd, direct (a local file), or postgres.")
    ] = "virtual-hdd",
    scale: Annotated[str, typer.Option(help="small takes minutes; paper is the papers' own size.")] = "small",
    out: Annotated[Path, typer.Option(help="Folder of the CSV files and plots.")] = Path("figures"),
) -> None:
    """Measure the figures of the papers on semi-stream joins and on sketches again, beside what they published.

    Prints a line for each published claim: published, predicted, measured. On the virtual disks time is virtual, so
    the results are the same on every machine.
    """
    from functools import partial

    from spark_jobs.experiments.papers.reproduce import run_papers
    from spark_jobs.local.terminal_progress import progress_bars

    run_papers(figure or [], disk, scale, out, home(), partial(progress_bars, error_console), typer.echo)


if __name__ == "__main__":
    app()
