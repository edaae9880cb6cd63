"""The `freshet` command: its subcommands, in the order in which help shows them.

Each command imports what it needs when it runs, so that help comes at once.

running.py     up, load
held.py        reprocess, requeue, held, waiting
source.py      source
rebuilding.py  rebuild-cache, rebuild-state
looking.py     status, metrics, verify, validate
warehouse.py   retire, psql, migrate
authoring.py   new, ddl, reference, dbt-sources, check
workload.py    seed, generate
bench.py       calibrate, and what `freshet bench` measures
options.py     options that several commands have
opening.py     a pipeline's definition and the warehouse, opened and closed
terminal.py    what is said, and where
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
import typer.core
from rich.markup import escape

from spark_jobs.cli import authoring, bench, held, looking, rebuilding, running, source, warehouse, workload
from spark_jobs.cli.terminal import error_console
from spark_jobs.errors import FreshetError

ERROR_STATUS = 2


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


_measuring = typer.Typer(help="Measure Freshet on this machine.", no_args_is_help=True)
app.add_typer(_measuring, name="bench")
for _command in (
    *(running.up, running.load, held.reprocess, held.requeue, held.held, held.waiting, source.source),
    *(rebuilding.rebuild_cache, rebuilding.rebuild_state, looking.status, looking.metrics, looking.verify),
    *(looking.validate, warehouse.retire, authoring.new, authoring.ddl, authoring.reference, authoring.dbt_sources),
    authoring.check,
):
    app.command()(_command)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(warehouse.psql)
for _command in (warehouse.migrate, workload.seed, bench.calibrate, workload.generate):
    app.command()(_command)
for _command in (bench.load, bench.correlate, bench.pipelines, bench.kernels, bench.papers):
    _measuring.command()(_command)
