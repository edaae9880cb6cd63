"""Landing folders: files of events, each of which appears whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from spark_jobs.errors import WorkloadError


def land(folder: Path, name: str, content: bytes) -> None:
    """Write a file so that a reader of the folder never sees a part of it.

    Spark overlooks files whose names begin with a dot; renaming within the folder is one atomic step.
    """
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".{name}"
    unfinished.write_bytes(content)
    unfinished.rename(folder / name)


def land_parquet(folder: Path, name: str, events: pa.Table) -> None:
    """Write a Parquet file as `land` does."""
    content = io.BytesIO()
    pyarrow.parquet.write_table(events, content)
    land(folder, name, content.getvalue())


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed writer has left; only while no other writes."""
    for unfinished in folder.glob(".*-*"):
        unfinished.unlink()


def prepare(folder: Path, pattern: str, state: Path) -> None:
    """Get a folder ready for a run that goes on where the last one ended.

    Args:
        folder: removed is what a killed writer has left.
        pattern: of the files that runs have written.
        state: the file that says where to go on.

    Raises:
        WorkloadError: there are files, but no state.
    """
    remove_unfinished(folder)
    if not state.exists() and any(folder.glob(pattern)):
        raise WorkloadError(
            f"{folder} holds events, but {state}, which says where to continue, is gone. "
            "Use another FRESHET_HOME, or empty the landing folders and the warehouse."
        )
