"""Commands about the warehouse itself."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from spark_jobs.cli.opening import connected
from spark_jobs.cli.terminal import console
from spark_jobs.settings import home


def retire(pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="Name of a registered pipeline.")]) -> None:
    """Let another pipeline have the fact table of one that is no longer used, or that has a new name.

    What it has stored stays. To use it again, start it.
    """
    from spark_jobs.control.registration import retire_pipeline

    with connected() as connection:
        retire_pipeline(connection, pipeline)
    console.print(f"Pipeline {pipeline} is retired: its fact table may be another's.")


def psql(context: typer.Context) -> None:
    """Open psql on the warehouse; arguments are psql's own, such as -c 'SELECT ...' or -f FILE."""
    from spark_jobs.local.psql_shell import run_psql
    from spark_jobs.local.warehouse_server import warehouse

    with warehouse(home(), create=False) as url:
        status = run_psql(url, context.args)
    raise typer.Exit(status)


def migrate() -> None:
    """Bring the warehouse's schema to the newest version; safe at any time.

    Then its roles are granted their rights, and changes of the pipelines' master data are noted by triggers.
    """
    from spark_jobs.control.migration import migrate as run_migrations
    from spark_jobs.control.roles import grant_roles
    from spark_jobs.definition import load_definitions
    from spark_jobs.local.warehouse_server import warehouse
    from spark_jobs.lookup.changes.triggers import unwatch_relations, watch_relations

    definitions = load_definitions().values()
    with warehouse(home()) as url:
        run_migrations(url)
        with connected(url) as connection:
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
