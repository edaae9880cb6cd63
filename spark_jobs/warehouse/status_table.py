"""The status of the pipelines as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from spark_jobs.warehouse.status import Freshness, PipelineStatus

_STATE_STYLES = {"running": "green", "starting": "cyan", "draining": "yellow", "stopped": "dim", "down": "bold red"}
_WIDE = 120  # columns of a terminal in which the table needs no wrapping
_MOST_COLUMNS = 4
_COUNTS = ("arrived", "loaded", "shed", "unmatched", "rejected")


class StatusTable:
    """The table of `render`: fits itself to the terminal when it is printed."""

    def __init__(self, statuses: Sequence[PipelineStatus]) -> None:
        self._statuses = statuses

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One row for each pipeline; in a narrow terminal one column for each, unless they are many."""
        if not self._statuses:
            yield Text("No pipeline has been registered in this warehouse yet.", style="dim")
            return
        table = Table(box=None, padding=(0, 1), header_style="bold")
        rows = [_cells(status) for status in self._statuses]
        names = [status.name for status in self._statuses]
        if options.max_width >= _WIDE or len(rows) > _MOST_COLUMNS:
            table.add_column("pipeline")
            for heading in rows[0]:
                table.add_column(heading, justify="left" if heading == "state" else "right")
            for name, cells in zip(names, rows, strict=True):
                table.add_row(name, *cells.values())
        else:
            table.add_column("")
            for name in names:
                table.add_column(name, justify="right")
            for heading in rows[0]:
                table.add_row(heading, *(cells[heading] for cells in rows))
        yield table


def render(statuses: Sequence[PipelineStatus]) -> StatusTable:
    """The pipelines' status to print; freshness, service rate and hit ratio are those of the window."""
    return StatusTable(statuses)


def _cells(status: PipelineStatus) -> dict[str, str | Text]:
    return {
        "state": Text(status.state, style=_STATE_STYLES[status.state]),
        "freshness p50 / p99": _freshness(status.freshness_window, status.target_ms),
        "target": _duration(status.target_ms),
        **{count: f"{getattr(status, count):,}" for count in _COUNTS},
        "facts/s": f"{status.service_rate:,.0f}",
        "hit ratio": "-" if status.hit_ratio is None else f"{status.hit_ratio:.0%}",
    }


def _freshness(freshness: Freshness, target_ms: float) -> Text:
    missed = freshness.p99_ms is not None and freshness.p99_ms > target_ms
    text = f"{_duration(freshness.p50_ms)} / {_duration(freshness.p99_ms)}"
    return Text(text, style="red" if missed else "")


def _duration(milliseconds: float | None) -> str:
    if milliseconds is None:
        return "-"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
