"""Progress on the terminal: the steps of a start-up, each with its time, and bars of long steps."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn


class StartupSteps:
    """Shows steps while they run, several at a time; where the output is no terminal, a line when one is done.

    Args:
        console: where to show them.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: dict[str, TaskID] = {}
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]\N{CHECK MARK}[/]"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> StartupSteps:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    @contextlib.contextmanager
    def step(self, description: str) -> Iterator[None]:
        """Show a step for the time of the block."""
        started = time.monotonic()
        bar = self._progress.add_task(description, total=None)
        yield
        self._progress.update(bar, total=1.0, completed=1.0)
        if not self._console.is_terminal:
            self._console.print(f"{description}: {time.monotonic() - started:.1f} s", highlight=False)

    def report(self, description: str, share: float) -> None:
        """Show how much of a step is done, from 0 to 1."""
        if description not in self._bars:
            self._bars[description] = self._progress.add_task(description, total=1.0)
        self._progress.update(self._bars[description], completed=share)


@contextlib.contextmanager
def progress_bars(console: Console) -> Iterator[Callable[[str, float], None]]:
    """One bar for each step that is reported: call the result with the step's name and its share done (0 to 1).

    Where the output is no terminal, only the finished bars are printed, at the end.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        tasks: dict[str, TaskID] = {}

        def report(step: str, share: float) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=1.0)
            bars.update(tasks[step], completed=share)

        yield report
