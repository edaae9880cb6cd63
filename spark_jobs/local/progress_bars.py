"""Progress of long steps, as bars in the terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn


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
