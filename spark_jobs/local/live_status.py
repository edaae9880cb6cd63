"""The pipelines' status on the terminal, brought up to date while they run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType

import psycopg2
from psycopg2 import extensions
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from spark_jobs.durations import format_duration
from spark_jobs.errors import WarehouseUnavailableError
from spark_jobs.ledger.status.driver_states import LOADING
from spark_jobs.ledger.status.lag import SourceLook
from spark_jobs.ledger.status.pipeline_status import Freshness, PipelineStatus, StatusReader
from spark_jobs.ledger.status.table import StatusTable
from spark_jobs.shown_text import shown_line
from spark_jobs.warehouse.connection import connect

PLAIN_LINE_SECONDS = 5.0


class LiveStatus:
    """A table that is drawn anew at each update; where the output is no terminal, a line per pipeline now and then.

    Args:
        console: where to show it.
        warehouse_url: libpq URL of the warehouse.
        footer: a line below the table.
        look: sees what has landed where no driver looks; None: nobody does.
    """

    def __init__(self, console: Console, warehouse_url: str, footer: str, look: SourceLook | None = None) -> None:
        self._console = console
        self._url = warehouse_url
        self._footer = Text.from_markup(footer)
        self._reader = StatusReader(look=look)
        self._connection: extensions.connection | None = None
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._line_due_at = 0.0

    def __enter__(self) -> LiveStatus:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()
        self._disconnect()

    def update(self, doing: str = "") -> None:
        """Read the status and show it. A warehouse that does not answer is no error here: it is shown.

        Args:
            doing: what is being done at the moment, if there is more to say than the table does.
        """
        statuses, trouble = self._read()
        if self._live:
            notes = [Text(note, style="yellow") for note in (trouble, doing) if note]
            table = [] if trouble else [StatusTable(statuses)]  # without an answer, nothing is known of pipelines
            self._live.update(Group(*table, *notes, self._footer), refresh=True)
        elif time.monotonic() >= self._line_due_at:
            self._line_due_at = time.monotonic() + PLAIN_LINE_SECONDS
            for line in filter(None, [trouble, doing]):
                self._console.print(line, highlight=False, soft_wrap=True, markup=False)
            show_once(self._console, statuses)

    def _read(self) -> tuple[Sequence[PipelineStatus], str]:
        try:
            if self._connection is None:
                self._connection = connect(self._url, application_name="freshet up", patience=timedelta(0))
            return self._reader.read(self._connection), ""
        except (psycopg2.Error, WarehouseUnavailableError) as error:
            self._disconnect()
            return [], f"The warehouse does not answer: {str(error).strip()}"

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg2.Error):
                self._connection.close()
            self._connection = None


def show_once(console: Console, statuses: Sequence[PipelineStatus]) -> None:
    """Print the status: a table, or where the output is no terminal, and has no width, a line for each pipeline."""
    if console.is_terminal:
        console.print(StatusTable(statuses))
    else:
        for status in statuses:
            console.print(_plain_line(status), highlight=False, soft_wrap=True, markup=False)


def _plain_line(status: PipelineStatus) -> str:
    shown = status.freshness_window if status.state in LOADING else Freshness(None, None)
    percentiles = " / ".join("-" if ms is None else _duration(ms) for ms in (shown.p50_ms, shown.p99_ms))
    hits = "-" if status.hit_ratio is None else f"{status.hit_ratio:.0%}"
    reason = status.overload_reason or status.blocked_by
    state = f"{status.state} ({shown_line(reason)})" if reason else status.state_in_words
    requeued = f"requeued {status.requeued}, " if status.requeued else ""
    return (
        f"{status.name}: {state}, unread {status.lag.in_words}, arrived {status.arrived}, loaded {status.loaded}, "
        f"shed {status.put_off}, {requeued}unmatched {status.unmatched}, rejected {status.rejected}, "
        f"{status.service_rate:.0f} facts/s, hit ratio {hits}, freshness p50 / p99 {percentiles}, "
        f"target {_duration(status.target_ms)}"
    )


def _duration(milliseconds: float) -> str:
    return format_duration(timedelta(milliseconds=milliseconds))
