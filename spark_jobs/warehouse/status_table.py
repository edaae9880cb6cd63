"""The status of the pipelines as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from spark_jobs.warehouse.status import Freshness, PipelineStatus

_STATE_STYLES = {"running": "green", "starting": "cyan", "draining": "yellow", "stopped": "dim", "down": "bold red"}
_COUNTS = ("arrived", "loaded", "shed", "unmatched", "rejected")


def render(statuses: Sequence[PipelineStatus]) -> Table:
    """One row for each pipeline; freshness, service rate and hit ratio are those of the window."""
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("pipeline")
    table.add_column("state")
    for heading in ("freshness p50 / p99", "target", *_COUNTS, "facts/s", "hit ratio"):
        table.add_column(heading, justify="right")
    for status in statuses:
        table.add_row(
            status.name,
            Text(status.state, style=_STATE_STYLES[status.state]),
            _freshness(status.freshness_window, status.target_ms),
            _duration(status.target_ms),
            *(f"{getattr(status, count):,}" for count in _COUNTS),
            f"{status.service_rate:,.0f}",
            "-" if status.hit_ratio is None else f"{status.hit_ratio:.0%}",
        )
    if not statuses:
        table.add_row(Text("none has been registered in this warehouse yet", style="dim"))
    return table


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
