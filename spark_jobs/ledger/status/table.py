"""The status of the pipelines as a table for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from spark_jobs.durations import format_duration
from spark_jobs.ledger.status.driver_states import LOADING
from spark_jobs.ledger.status.figures import FIGURES, TERMINAL, Unit
from spark_jobs.ledger.status.operations import ValidationStatus
from spark_jobs.ledger.status.pipeline_status import PipelineStatus
from spark_jobs.shown_text import shown_line

Cells = dict[str, str | Text]

_STATE_STYLES = {
    "running": "green",
    "idle": "green",
    "late": "bold yellow",
    "starting": "cyan",
    "rejecting": "bold red",
    "overloaded": "bold yellow",
    "catching up": "cyan",
    "blocked": "bold red",
    "draining": "yellow",
    "stopped": "dim",
    "restarting": "bold yellow",
    "down": "bold red",
}
_VALIDATION_STYLES = {"failed": "red", "error": "red"}
_ANY_WIDTH = 1000
_MOST_COLUMNS = 4
# What is older is counted as a day in histograms.
_DAY_MS = 86_400_000.0
_OPTIONAL = ("backlog_requeued", "oldest_waits_ms", "staleness_ms", "validation")


class StatusTable:
    """The pipelines' status to print; percentiles, service rate and hit ratio are those of the window.

    It fits itself to the terminal when it is printed.
    """

    def __init__(self, statuses: Sequence[PipelineStatus]) -> None:
        self._statuses = statuses

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One row for each pipeline; in a terminal that is too narrow one column for each, unless they are many."""
        if not self._statuses:
            yield Text("No pipeline has been registered in this warehouse yet.", style="dim")
            return
        rows = _without_empty_columns([_cells(status) for status in self._statuses])
        names = [status.name for status in self._statuses]
        table = _by_row(names, rows)
        width = Measurement.get(console, options.update(max_width=_ANY_WIDTH), table).maximum
        yield table if width <= options.max_width or len(rows) > _MOST_COLUMNS else _by_column(names, rows)
        for status in self._statuses:
            if status.blocked_since is not None:
                since = f"{status.blocked_since:%Y-%m-%d %H:%M:%S} UTC"
                why = shown_line(str(status.blocked_by))
                yield Text(f"{status.name} has been blocked since {since}: {why}", style="red")
            if status.state == "rejecting":
                why = shown_line(str(status.overload_reason))
                yield Text(f"{status.name} rejects what it reads: {why}", style="red")
            if status.lag.at_least and status.lag.looked_at is not None:
                since = f"{status.lag.looked_at:%Y-%m-%d %H:%M:%S} UTC"
                if status.was_emptied:
                    told = f"nothing was unread when it stopped, as of {since}; what has landed since waits for a start"
                    yield Text(f"{status.name}: {told}", style="dim")
                else:
                    told = f"{status.name}: nobody has looked at its source since {since}; more may have landed"
                    yield Text(told, style="yellow")
            for each in status.streams:
                held_back = "; the others wait for it" if each.holds_back and not each.idle else ""
                told = f"{each.waiting:,} wait, {each.expired:,} expired and {each.late:,} were late in the last hour"
                if each.punctuations or each.after_last:
                    told += f"; {each.punctuations:,} punctuations, {each.after_last:,} came after one of their key"
                if each.purged:
                    told += f"; {each.purged:,} purged"
                yield Text(
                    f"{status.name}, {each.stream}: {told}{'; idle' if each.idle else ''}{held_back}", style="dim"
                )
            files = status.files_not_loaded
            if files.newest is not None:
                told = f"{files.in_words}; the newest: {shown_line(files.newest)}"
                yield Text(f"{status.name}: {told} (`freshet source {status.name}` shows them)", style="yellow")
            if status.unaccounted:
                told = f"{status.unaccounted:,} events arrived and are in no place (`freshet verify` names them)"
                yield Text(f"{status.name}: {told}", style="bold red")


def _by_row(names: Sequence[str], rows: Sequence[Cells]) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("pipeline")
    for key in rows[0]:
        table.add_column(TERMINAL[key], justify="left" if key == "state" else "right")
    for name, cells in zip(names, rows, strict=True):
        table.add_row(name, *cells.values())
    return table


def _by_column(names: Sequence[str], rows: Sequence[Cells]) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    for key in rows[0]:
        table.add_row(TERMINAL[key], *(cells[key] for cells in rows))
    return table


def _cells(status: PipelineStatus) -> Cells:
    """By a figure's key."""
    apart: Cells = {
        "state": Text(status.state_in_words, style=_STATE_STYLES[status.state]),
        "lag": "none at its end" if status.was_emptied else status.lag.files_in_words,
        "freshness_now_ms": _freshness(status),
        "percentiles": _percentiles(status),
        "backlog_requeued": f"{status.requeued:,}" if status.requeued else "-",
        "validation": _validation(status.validation),
    }
    return {key: apart[key] if key in apart else _cell(key, status) for key in TERMINAL}


def _cell(key: str, status: PipelineStatus) -> str:
    value = FIGURES[key].read(status)
    return "-" if value is None else _SHOWN[FIGURES[key].unit](value)


def _without_empty_columns(rows: Sequence[Cells]) -> list[Cells]:
    """Rows without the columns that say nothing of any pipeline."""
    said = [key for key in rows[0] if key not in _OPTIONAL or any(str(row[key]) != "-" for row in rows)]
    return [{key: row[key] for key in said} for row in rows]


def _validation(validation: ValidationStatus | None) -> Text:
    if validation is None:
        return Text("-")
    failed = f"{validation.failed} of {validation.expectations} failed" if validation.result == "failed" else None
    return Text(failed or validation.result, style=_VALIDATION_STYLES.get(validation.result, ""))


def _percentiles(status: PipelineStatus) -> str:
    """Of what was loaded lately; nothing of a stream that does not load: it would look fresh."""
    freshness = status.freshness_window
    if status.state not in LOADING:
        return "-"
    return f"{_duration(freshness.p50_ms)} / {_duration(freshness.p99_ms)}"


def _freshness(status: PipelineStatus) -> Text:
    now = status.freshness_now_ms
    missed = now is not None and now > status.target_ms
    text = "over 24 h" if now is not None and now >= _DAY_MS else _duration(now)
    return Text(text, style="red" if missed else "")


def _duration(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else format_duration(timedelta(milliseconds=milliseconds))


_SHOWN: dict[Unit, Callable[[float], str]] = {
    "tuples": "{:,}".format,
    "ms": _duration,
    "per second": "{:,.0f}".format,
    "share": "{:.0%}".format,
}
