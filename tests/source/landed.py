"""Landed files, and slices of them as a driver plans them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spark_jobs.definition import Source
from spark_jobs.source.files.planned_file import FileSlice

SCHEMA = "id bigint, name string, price decimal(10,2), at timestamp"


def source(
    file_format: str = "json", schema: str = SCHEMA, options: Mapping[str, Any] | None = None, event_id: str = "id"
) -> Source:
    """A source of records with this schema."""
    return Source.model_validate(
        {"format": file_format, "path": "/x", "schema": schema, "event_id": [event_id], "event_time": "at",
         "options": options or {}}
    )  # fmt: skip


def planned(path: Path, first: int = 0, last: int | None = None) -> FileSlice:
    """A slice of a file as it is now; all of it unless told otherwise."""
    found = path.stat()
    return FileSlice(3, str(path), first, found.st_size if last is None else last, found.st_size, found.st_mtime_ns)
