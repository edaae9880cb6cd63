"""Arguments and options that several commands have, and how they are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from spark_jobs.durations import parse_duration

DEFAULT_SCALE = 0.1
DEFAULT_RATE = 200.0


def duration_option(value: str | timedelta) -> timedelta:
    """Value of an option; defaults, which are durations already, come through here too."""
    if isinstance(value, timedelta):
        return value
    try:
        return parse_duration(value)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def factor(value: str | float) -> float:
    """A factor such as `3x`, or just 3."""
    try:
        return float(value.lower().removesuffix("x")) if isinstance(value, str) else value
    except ValueError as error:
        raise typer.BadParameter(f"{value!r} is no factor. Write how many times, for example 3x") from error


def ago(age: timedelta | None) -> datetime | None:
    """The moment that lies so long back; None: any."""
    return None if age is None else datetime.now(UTC) - age


Pipeline = Annotated[str, typer.Argument(metavar="PIPELINE", help="Name of a pipeline, or path of its YAML file.")]
Duration = Annotated[
    timedelta | None,
    typer.Option(
        "--for", parser=duration_option, metavar="DURATION", help="End after this time, such as 120s or 1h30m."
    ),
]
Since = Annotated[
    timedelta | None,
    typer.Option(parser=duration_option, metavar="DURATION", help="Only what arrived in this time, such as 2h."),
]
Rate = Annotated[float, typer.Option(help="Mean number of orders (or events) per second.")]
Scale = Annotated[float, typer.Option(help="TPC-H scale factor; 1 is 150,000 customers and 1.5 million orders.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Minutes = Annotated[float | None, typer.Option(help="Begin no round that would end later.", show_default="no limit")]
Repetitions = Annotated[int, typer.Option(min=1, help="Rounds; the median counts.")]
MeasuringFreshness = Annotated[bool, typer.Option(help="Measure freshness at half of the rate besides.")]
