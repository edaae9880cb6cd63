"""Which files have landed, what the ledger says of them, and whether one was passed over."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from psycopg2 import extensions

from spark_jobs.definition.kinds.files import landing_folder
from spark_jobs.errors import SourceRangeGoneError
from spark_jobs.ledger.stated_ranges import LedgerRange
from spark_jobs.ledger.unread_files import landing_time
from spark_jobs.source.files.names import compression_of, is_landed, modified_ns_of, name_of, unit_of
from spark_jobs.source.files.planned_file import FileSlice
from spark_jobs.source.files.regular_files import regular_status
from spark_jobs.source.kind import SourceStream
from spark_jobs.source.landed_units import AbsentUnit, Fault, LandedUnit, Landing

# A batch is opened some time after its source was looked through, by the clock of another machine perhaps.
_GRACE_NS = 10_000_000_000

# Of each batch the file that the source takes last of those that it begins.
_BEGUN = """
    SELECT DISTINCT ON (batch_no) extract(epoch FROM started_at) * 1e9, modified_ns, unit
    FROM freshet.source_range JOIN freshet.batch USING (batch_no)
    WHERE source_range.pipeline = %s AND starts_with(unit, %s) AND first = 0 AND modified_ns IS NOT NULL
    ORDER BY batch_no, modified_ns DESC, unit DESC
"""


@dataclass(frozen=True)
class LandedFile(LandedUnit):
    """A landed file that can be read.

    Attributes:
        unit: its name in the ledger.
        path: where it is.
        size: bytes.
        modified_ns: when it was changed last, in ns since 1970: that is when its records arrived.
        came_ns: when it came to where it is, in ns since 1970, or later.
        ranges: those of it, by where they begin.
        is_retried: whether it is to be read once more.
    """

    unit: str
    path: Path
    size: int
    modified_ns: int
    came_ns: int
    ranges: Sequence[LedgerRange] = ()
    is_retried: bool = False
    where: ClassVar[str] = "the file"

    @classmethod
    def at(cls, unit: str, path: Path) -> LandedFile | None:
        """The file that is there now; None where there is none, or it can't be looked at."""
        found = regular_status(path)
        return None if found is None else cls(unit, path, found.st_size, modified_ns_of(found), found.st_ctime_ns)

    @property
    def whole(self) -> FileSlice:
        """All of it."""
        return FileSlice(0, str(self.path), 0, self.size, self.size, self.modified_ns, self.poison)

    @property
    def rejected_path(self) -> Path:
        """As of `LandedUnit`."""
        return self.path

    def fault(self, error: Exception) -> tuple[Fault, str] | None:
        """Why it is not there as it was; None where it is, and can't be read."""
        if not isinstance(error, SourceRangeGoneError):
            return None
        return ("changed" if self.path.exists() else "gone"), self.unit

    @property
    def arrived(self) -> datetime:
        """When its records arrived."""
        return landing_time(self.modified_ns)

    def is_of(self, planned: LedgerRange) -> bool:
        """Whether it is the very file that the range was planned in."""
        return (planned.size, planned.modified_ns) == (self.size, self.modified_ns)


def landed_files(folder: Path, prefix: str = "") -> dict[str, Path]:
    """The files that a source reads of its landing folder: name in the ledger -> path, in the order of names.

    Those are the folder's own files, not its subfolders', without empty and hidden ones: a name that starts
    with "." or "_" (unless it holds "="), or that ends in "._COPYING_", is still being written. What can't be looked
    at has not landed either.
    """
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as entries:
        names = sorted(each.name for each in entries if is_landed(each.name) and _has_content(each))
    return {prefix + unit_of(name): folder / name for name in names}


def _has_content(entry: os.DirEntry[str]) -> bool:
    """Whether it is a regular file that is not empty."""
    status = regular_status(entry)
    return status is not None and status.st_size > 0


class FolderLanding(Landing):
    """A landing folder, and the folder that loaded files are moved to."""

    def __init__(self, stream: SourceStream, cursor: extensions.cursor) -> None:
        policy = stream.source.after_load
        self._archive = None if policy == "keep" else policy.archive_folder(stream.home)
        self._landed = landed_files(landing_folder(stream.source, stream.home), stream.prefix)
        self._stream = stream
        self._cursor = cursor
        self.told = f"reading landed files {stream.prefix}".rstrip()

    @property
    def total(self) -> int:
        """How many files are in the folder."""
        return len(self._landed)

    def units(self) -> Iterator[LandedFile | AbsentUnit]:
        """All files that have landed, or that the ledger knows, with their ranges."""
        unknown = dict(self._landed)
        for unit, ranges in LedgerRange.by_unit(self._cursor, self._stream.pipeline, self._stream.prefix):
            yield from self._with_ranges(unit, ranges, unknown.pop(unit, None))
        for unit, path in unknown.items():
            file = LandedFile.at(unit, path)
            if file is not None:
                yield file

    def room(self, planned: LedgerRange) -> int | None:
        """How many records a range has room for: lines of a byte and its end; None where that says nothing."""
        if not self._stream.source.record_format.is_divisible or compression_of(planned.unit) is not None:
            return None
        return (planned.last - planned.first + 1) // 2

    def passed_over(self, unit: LandedUnit) -> bool:
        """Whether a file is not loaded to its end, and a later one was."""
        assert isinstance(unit, LandedFile)
        return not unit.is_planned and not unit.is_retried and self._planned.passed_over(unit)

    @cached_property
    def _planned(self) -> PlannedFiles:
        return PlannedFiles(self._cursor, self._stream)

    def _with_ranges(
        self, unit: str, ranges: Sequence[LedgerRange], landed: Path | None
    ) -> Iterator[LandedFile | AbsentUnit]:
        """The files of one name; each of several that had it one after the other has ranges of its own."""
        file = None if landed is None else LandedFile.at(unit, landed)
        own = [each for each in ranges if file is not None and file.is_of(each)]
        may_be_stored = [each for each in ranges if each.state != "retried" or each.was_loaded or each.was_given_up]
        absent = [each for each in may_be_stored if each not in own]
        for archived in self._archived(unit, absent):
            yield archived
            absent = [each for each in absent if not archived.is_of(each)]
        is_changed = not own and any(each.state == "loaded" and each.size and not each.was_removed for each in absent)
        if file is not None:
            is_retried = any(each.state == "to retry" for each in ranges)
            yield replace(file, ranges=[each for each in own if each.state != "retried"], is_retried=is_retried)
        if absent:
            yield AbsentUnit(unit, absent, is_changed and file is not None)

    def _archived(self, unit: str, ranges: Sequence[LedgerRange]) -> Iterator[LandedFile]:
        """The archived files of these ranges; one whose name was taken has its time of change behind it."""
        if self._archive is None:
            return
        name = name_of(unit.removeprefix(self._stream.prefix))
        for candidate in {name, *(f"{name}.{each.modified_ns}" for each in ranges)}:
            file = LandedFile.at(unit, self._archive / candidate)
            own = [each for each in ranges if file is not None and file.is_of(each)]
            if file is not None and own:
                yield replace(file, ranges=own)


class PlannedFiles:
    """The files of one stream that batches have taken, and when.

    Args:
        cursor: in the proof's transaction.
        stream: which reads them.
    """

    def __init__(self, cursor: extensions.cursor, stream: SourceStream) -> None:
        cursor.execute(_BEGUN, [stream.pipeline, stream.prefix])
        batches = sorted(((int(started), (modified_ns, unit)) for started, modified_ns, unit in cursor), reverse=True)
        self._started: list[int] = []
        self._last_since: list[tuple[int, str]] = []
        for started, last in batches:
            self._started.append(-started)
            self._last_since.append(max(last, self._last_since[-1]) if self._last_since else last)

    def passed_over(self, file: LandedFile) -> bool:
        """Whether a batch that was opened after the file had come took one that comes after it instead. O(log n)."""
        later = bisect_right(self._started, -(file.came_ns + _GRACE_NS))
        return later > 0 and self._last_since[later - 1] > (file.modified_ns, file.unit)
