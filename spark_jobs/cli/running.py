"""Commands that run the platform, or a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from spark_jobs.cli.opening import statuses
from spark_jobs.cli.options import DEFAULT_RATE, DEFAULT_SCALE, Duration, Rate, Scale, factor
from spark_jobs.cli.terminal import console
from spark_jobs.settings import home


def up(
    *,
    duration: Duration = None,
    scale: Scale = DEFAULT_SCALE,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of Airflow's UI, on this machine only.")] = 8080,
    rate: Rate = DEFAULT_RATE,
    overload: Annotated[
        float | None,
        typer.Option(
            parser=factor,
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
        console.print(StatusTable([each for each in statuses(url) if each.name in definitions]))
