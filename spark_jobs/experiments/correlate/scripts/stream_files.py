"""The files of all streams that a script loads in one transaction: those of the same stretch of event time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spark_jobs.experiments.correlate.data import CorrelateCase

FILES_AT_ONCE = 4  # of each stream: 200,000 events, as Spark's join takes them


def groups_of_files(case: CorrelateCase, events: Path) -> Iterator[dict[str, list[Path]]]:
    """Group by group, the files of each stream."""
    files = {stream: sorted((events / stream).iterdir()) for stream in case.streams}
    for first in range(0, max(map(len, files.values())), FILES_AT_ONCE):
        yield {stream: of_stream[first : first + FILES_AT_ONCE] for stream, of_stream in files.items()}
