"""Looks into landing folders that no driver looks into any more: what lands while none runs is seen as well."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from psycopg2 import extensions
from pydantic import ValidationError

from spark_jobs.control.host_processes import this_host
from spark_jobs.definition import Source
from spark_jobs.definition.kinds.files import landing_folder
from spark_jobs.ledger.status.driver_states import DrivenPipeline
from spark_jobs.ledger.unread import Unread
from spark_jobs.ledger.unread_files import landing_time, unread_among
from spark_jobs.settings import Home
from spark_jobs.source.files.names import is_landed, modified_ns_of, unit_of
from spark_jobs.source.files.regular_files import regular_status

# To list and compare more takes longer than a look at the status may: a driver does it, once.
_MOST_FILES = 50_000
_LOOK_SECONDS = 5.0

_PATIENCE = timedelta(milliseconds=50)
ONE_LOOK = timedelta(seconds=1)
"""Patience of those who look once, and not again."""


class _File(NamedTuple):
    unit: str
    size: int
    modified_ns: int


class _Listing(NamedTuple):
    """The files of a folder; None where they can't be listed, or are too many."""

    files: list[_File] | None
    looked_at: float


class _Folder:
    """A landing folder, listed in a thread of its own: a file system that hangs must not hold up the status."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unread: tuple[_Listing, Unread] | None = None
        self._listing: _Listing | None = None
        self._thread: threading.Thread | None = None

    def listing(self, patience: timedelta) -> _Listing | None:
        """The newest listing, a few seconds old at most; None where there is none in time."""
        if self._is_fresh():
            return self._listing
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._list, name=f"look into {self.path}", daemon=True)
            self._thread.start()
            self._thread.join(patience.total_seconds())
        return self._listing if self._is_fresh() else None

    def _is_fresh(self) -> bool:
        return self._listing is not None and time.monotonic() - self._listing.looked_at < _LOOK_SECONDS

    def _list(self) -> None:
        looked_at = time.monotonic()
        try:
            files = []
            for file in _landed(self.path):
                files.append(file)
                if len(files) > _MOST_FILES:
                    self._listing = _Listing(None, looked_at)
                    return
            self._listing = _Listing(files, looked_at)
        except OSError:
            self._listing = _Listing(None, looked_at)


class LandingLook:
    """Tells what has landed and is in no batch, of pipelines whose last driver ran on this host.

    Folders are listed every five seconds at most, in threads; those with more than 50,000 files are left to drivers.

    Args:
        home: the installation.
        patience: how long a call waits for a folder that it lists for the first time.
    """

    def __init__(self, home: Home, patience: timedelta = _PATIENCE) -> None:
        self._home = home
        self._patience = patience
        self._folders: dict[str, tuple[int, _Folder | None]] = {}

    def __call__(self, cursor: extensions.cursor, pipeline: DrivenPipeline) -> Unread | None:
        """What is unread of a pipeline; None where its folder can't be seen from here, or not in time."""
        if pipeline.host != this_host():
            return None
        folder = self._folder(cursor, pipeline)
        listing = folder.listing(self._patience) if folder else None
        if folder is None or listing is None or listing.files is None:
            return None
        if folder.unread is None or folder.unread[0] is not listing:
            folder.unread = listing, _unread(cursor, pipeline.name, listing.files, listing.looked_at)
        return folder.unread[1]

    def _folder(self, cursor: extensions.cursor, pipeline: DrivenPipeline) -> _Folder | None:
        epoch, folder = self._folders.get(pipeline.name, (None, None))
        if epoch != pipeline.epoch:  # the definition may be another one
            path = _landing_folder(cursor, pipeline.name, self._home)
            folder = None if path is None else _Folder(path)
            self._folders[pipeline.name] = pipeline.epoch, folder
        return folder


def _landing_folder(cursor: extensions.cursor, pipeline: str, home: Home) -> Path | None:
    """Where its only stream lands; None of several streams, of a topic, or of another version's definition."""
    cursor.execute(
        "SELECT definition -> 'source' FROM freshet.pipeline "
        "WHERE name = %s AND coalesce(definition -> 'streams', 'null') = 'null' "
        "AND definition #>> '{source,path}' IS NOT NULL",
        [pipeline],
    )
    row = cursor.fetchone()
    try:
        return landing_folder(Source.model_validate(row[0]), home) if row else None
    except ValidationError:
        return None


def _unread(cursor: extensions.cursor, pipeline: str, files: list[_File], looked_at: float) -> Unread:
    count, size, oldest_ns = unread_among(cursor, pipeline, files)
    return Unread(count, size, None if oldest_ns is None else landing_time(oldest_ns), looked_at)


def _landed(folder: Path) -> Iterator[_File]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not is_landed(entry.name):
                continue
            status = regular_status(entry)
            if status is not None and status.st_size:
                yield _File(unit_of(entry.name), status.st_size, modified_ns_of(status))
