"""Landing folders: files of events, each of which appears whole or not at all."""

from __future__ import annotations

from pathlib import Path


def land(folder: Path, name: str, content: bytes) -> None:
    """Write a file so that a reader of the folder never sees a part of it.

    Spark overlooks files whose names begin with a dot; renaming within the folder is one atomic step.
    """
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".{name}"
    unfinished.write_bytes(content)
    unfinished.rename(folder / name)


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed writer has left; only while no other writes."""
    for unfinished in folder.glob(".*-*"):
        unfinished.unlink()
