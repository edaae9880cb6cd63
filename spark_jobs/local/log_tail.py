"""The end of a log file, for an error message."""

from __future__ import annotations

from pathlib import Path


def log_tail(log: Path, most_bytes: int = 3000) -> str:
    """The last lines of a log, `most_bytes` at most."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - most_bytes))
            return file.read().decode(errors="replace").strip()
    except OSError as error:
        return f"({error.strerror})"
