"""What commands say, and where."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import typer

from spark_jobs.shown_text import SafeConsole

if TYPE_CHECKING:
    from rich.console import RenderableType

# A file or a pipe has no width of its own; rich would squeeze tables into 80 columns.
console = SafeConsole(width=None if sys.stdout.isatty() else 140)
error_console = SafeConsole(stderr=True)


def say(line: str, style: str | None = None) -> None:
    """Print a line as it is, however long: neither markup nor numbers in it are coloured."""
    console.print(line, soft_wrap=True, highlight=False, markup=False, style=style)


def show(as_json: bool, measured: Any, table: RenderableType) -> None:
    """Print what was measured, as JSON or as a table."""
    if as_json:
        typer.echo(json.dumps(measured, indent=2))
    else:
        console.print(table)
