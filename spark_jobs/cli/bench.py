"""Commands that measure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from spark_jobs.cli.options import Json, MeasuringFreshness, Minutes, Repetitions
from spark_jobs.cli.terminal import console, error_console, show
from spark_jobs.settings import home


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


def load(
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
    repetitions: Repetitions = 5,
    minutes: Minutes = None,
    freshness: MeasuringFreshness = True,
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
    show(as_json, result, render(result))


def correlate(
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
    repetitions: Repetitions = 5,
    minutes: Minutes = None,
    freshness: MeasuringFreshness = True,
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
    show(as_json, result, render(result))


def pipelines(
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
    show(as_json, result, render(result))


def kernels(
    *,
    as_json: Json = False,
    repetitions: Annotated[int, typer.Option(min=1, help="Rounds of each experiment; the median counts.")] = 7,
) -> None:
    """Measure the joins' own code, beside what it aims at: probes, refill, delete, emit, first call, hit ratio.

    Takes some minutes on one core. Run nothing else beside it.
    """
    from spark_jobs.experiments.kernels.kernel_benchmark import render, run_kernel_benchmark

    figures = run_kernel_benchmark(repetitions, error_console.print)
    show(as_json, [figure.to_json() for figure in figures], render(figures, repetitions))


def papers(
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
