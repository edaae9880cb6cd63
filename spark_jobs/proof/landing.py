"""Which files have landed, and which of them the stream has committed, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlparse

from spark_jobs.errors import PlatformError

_LOG_VERSION = "v1"


@dataclass(frozen=True)
class LandedFile:
    """A landed file as the proof shows it: how to name it, and when it arrived."""

    label: str
    arrived: datetime


def landed_files(folder: Path) -> list[Path]:
    """The files of a landing folder that Spark reads, by name.

    Those are the folder's own files, not its subfolders', without empty and hidden ones: a name that starts
    with "." or "_" (unless it holds "="), or that ends in "._COPYING_", is still being written.
    """
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _visible(path.name) and path.is_file() and path.stat().st_size)


def _visible(name: str) -> bool:
    hidden = name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
    return not hidden


def committed_files(checkpoint: Path) -> set[Path]:
    """The files whose batches the streaming query has committed, as its checkpoint tells; empty without one.

    Raises:
        PlatformError: the checkpoint can't be understood.
    """
    committed = _numbers(checkpoint / "commits")
    if not committed:
        return set()
    try:
        last_log = _log_offset(checkpoint / "offsets" / str(max(committed)))
        return set(_logged(checkpoint / "sources" / "0", last_log))
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise PlatformError(
            f"Spark's checkpoint {checkpoint} can't be understood ({error}). If it is broken, move it away while "
            f"no driver runs: all landed files are then loaded again, and what is stored already is left out."
        ) from error


def _numbers(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if path.name.isdecimal()] if folder.is_dir() else []


def _log_offset(offsets: Path) -> int:
    """Number of the source log's entry up to which a batch read."""
    lines = _lines(offsets)
    offset = json.loads(lines[1])  # after the batch's metadata one line for each source: there is one
    return int(offset["logOffset"])


def _logged(folder: Path, last: int) -> Iterator[Path]:
    """The files in the source log's entries up to `last`. Every tenth entry is compact: it repeats all before."""
    compact = [int(path.stem) for path in folder.glob("*.compact") if path.stem.isdecimal()]
    start = max(compact, default=-1)
    logs = [folder / f"{start}.compact"] if compact else []
    logs += [folder / str(number) for number in sorted(_numbers(folder)) if number > start]
    for log in logs:
        for line in _lines(log):
            entry = json.loads(line)
            if entry["batchId"] <= last:
                yield Path(unquote(urlparse(entry["path"]).path))


def _lines(log: Path) -> list[str]:
    version, *lines = log.read_text().splitlines()
    if version != _LOG_VERSION:
        raise ValueError(f"{log} is of version {version!r}, known is {_LOG_VERSION!r}")
    return lines
