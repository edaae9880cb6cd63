"""Commands that look: at the status, at the proof, at expectations."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Annotated

import typer
from rich.markup import escape

from spark_jobs.cli.opening import opened, statuses
from spark_jobs.cli.options import Json, Pipeline, ago, duration_option
from spark_jobs.cli.terminal import console
from spark_jobs.settings import home

LAW_BROKEN_STATUS = 1
EXPECTATION_FAILED_STATUS = 1


def status(*, as_json: Json = False) -> None:
    """Show how fresh the warehouse is, and what became of the events of each pipeline."""
    from spark_jobs.ledger.status.pipeline_status import to_json
    from spark_jobs.ledger.status.table import StatusTable
    from spark_jobs.local.warehouse_server import warehouse_as
    from spark_jobs.local.warehouse_users import READING

    with warehouse_as(READING, home()) as url:
        found = statuses(url)
    if as_json:
        typer.echo(to_json(found))
    elif found:
        console.print(StatusTable(found))
    else:
        console.print("No pipeline has run in this warehouse yet. Try `freshet up`, or `freshet load PIPELINE`.")


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
    with opened(pipeline) as (definition, url):
        from spark_jobs.proof.verification import verify as prove

        proof = prove(definition, url, home())
    if as_json:
        typer.echo(proof.to_json())
    else:
        console.print(proof.render())
    proved = proof.holds and not (strict and proof.unprovable)
    raise typer.Exit(0 if proved else LAW_BROKEN_STATUS)


def validate(
    pipeline: Pipeline,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All facts, not only new ones.")] = False,
    first_batch: Annotated[int | None, typer.Option("--from-batch", help="Loads from this number on.")] = None,
    last_batch: Annotated[int | None, typer.Option("--to-batch", help="Loads up to this number.")] = None,
    since: Annotated[
        timedelta | None,
        typer.Option(parser=duration_option, metavar="DURATION", help="What was loaded in this time, such as 2h."),
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
        selection = Selection(what="loaded", loaded_from=ago(since))
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
