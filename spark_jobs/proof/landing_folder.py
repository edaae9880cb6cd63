"""Which files have landed, what the ledger says of them, and whether one was passed over."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from psycopg2 import extensions

from spark_jobs.definition import Source
from spark_jobs.ledger.poison import Poison, poison_of
from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.settings import Home
from spark_jobs.source.files.names import compression_of, is_landed, modified_ns_of, name_of, unit_of
from spark_jobs.source.files.regular_files import regular_status

_RANGES_AT_ONCE = 10_000

# A batch that is open has not committed what it reads. What it has stored of a range that it did not read to its end is
# what its other ranges do not account for: their records are stored, too, or are duplicates. Of several streams, what
# is stored are results; a damaged file is found before its first record, so that nothing of it is.
_RANGES = """
    SELECT unit, first, last, size, modified_ns, records, reason, batch_no, removed_at IS NOT NULL,
        CASE WHEN batch.state = 'started' AND source_range.state = 'loaded' THEN 'planned' ELSE source_range.state END,
        range_id,
        CASE WHEN batch.batch_no IS NULL OR (source_range.state <> 'lost' AND reason IS NULL) THEN NULL
            WHEN EXISTS (SELECT FROM freshet.batch_stream AS course WHERE course.batch_no = batch.batch_no)
                THEN CASE WHEN records = 0 THEN 0 END
            WHEN batch.state = 'started' THEN (
                SELECT coalesce(sum(part.facts + part.shed + part.unmatched + part.rejected), 0)
                FROM freshet.batch_part AS part WHERE part.batch_no = batch.batch_no)
            ELSE least(stored, greatest(stored + duplicates - (
                SELECT coalesce(sum(other.records), 0) FROM freshet.source_range AS other
                WHERE other.batch_no = batch.batch_no AND other.state <> 'lost' AND other.reason IS NULL), 0))
        END::bigint,
        dismissed_at IS NOT NULL, poison
    FROM freshet.source_range LEFT JOIN freshet.batch USING (batch_no)
        CROSS JOIN LATERAL (SELECT facts + shed + unmatched + rejected AS stored) AS counted
    WHERE source_range.pipeline = %s AND starts_with(unit, %s)
    ORDER BY unit, modified_ns, size, first
"""

# A batch is opened some time after its source was looked through, by the clock of another machine perhaps.
_GRACE_NS = 10_000_000_000

# Of each batch the file that the source takes last of those that it begins.
_BEGUN = """
    SELECT DISTINCT ON (batch_no) extract(epoch FROM started_at) * 1e9, modified_ns, unit
    FROM freshet.source_range JOIN freshet.batch USING (batch_no)
    WHERE source_range.pipeline = %s AND starts_with(unit, %s) AND first = 0 AND modified_ns IS NOT NULL
    ORDER BY batch_no, modified_ns DESC, unit DESC
"""


class LedgerRange(NamedTuple):
    """A range of a landed file in the ledger; fields as in freshet.source_range, `unit` as the file's name there.

    Attributes:
        was_removed: whether the driver has removed the file after it was loaded.
        most_stored: of a range that was given up, how many of its records may be stored; None where that is not known.
        was_dismissed: whether an operator wants to be told no more that it was not loaded.
        stated_poison: what of it is not decoded, as the ledger states it.
    """

    unit: str
    first: int
    last: int
    size: int | None
    modified_ns: int | None
    records: int | None
    reason: str | None
    batch_no: int | None
    was_removed: bool
    state: str
    range_id: int
    most_stored: int | None
    was_dismissed: bool
    stated_poison: list[tuple[int, int, str]] | None = None

    @property
    def was_loaded(self) -> bool:
        """Whether its records were loaded, be it that the file is, or was, to be read once more."""
        return self.state == "loaded" or (self.state in {"to retry", "retried"} and self.reason is None)

    @property
    def was_given_up(self) -> bool:
        """Whether a batch has not read it to its end: some of its records may have been stored until then."""
        if self.state in {"set aside", "to retry", "retried"}:
            return self.batch_no is not None and self.reason is not None
        return self.state == "lost" and self.batch_no is not None

    def most_records(self, source: Source) -> int | None:
        """How many records of it the warehouse may know at most; None where nothing bounds them."""
        if self.records is not None and not self.was_given_up:
            return self.records
        known = [bound for bound in (self.most_stored, self._most_held(source)) if bound is not None]
        return min(known, default=None)

    def _most_held(self, source: Source) -> int | None:
        """How many records it has room for: one an offset, or lines of a byte and its end."""
        if source.kafka is not None:
            return self.last - self.first
        if source.format == "parquet" or compression_of(self.unit) is not None:
            return None
        return (self.last - self.first + 1) // 2


def poison_in(ranges: Sequence[LedgerRange]) -> Poison:
    """What is not decoded of what these ranges lie in."""
    return tuple(span for each in ranges for span in poison_of(each.stated_poison))


@dataclass(frozen=True)
class LandedFile:
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

    @classmethod
    def at(cls, unit: str, path: Path) -> LandedFile | None:
        """The file that is there now; None where there is none, or it can't be looked at."""
        found = regular_status(path)
        return None if found is None else cls(unit, path, found.st_size, modified_ns_of(found), found.st_ctime_ns)

    @property
    def poison(self) -> Poison:
        """What of it is not decoded."""
        return poison_in(self.ranges)

    @property
    def arrived(self) -> datetime:
        """When its records arrived."""
        arrived = SourceRange(self.unit, 0, self.size, self.size, self.modified_ns).landed_at
        assert arrived is not None
        return arrived

    def is_of(self, planned: LedgerRange) -> bool:
        """Whether it is the very file that the range was planned in."""
        return (planned.size, planned.modified_ns) == (self.size, self.modified_ns)

    @property
    def is_planned(self) -> bool:
        """Whether the ledger has all of it, loaded or not."""
        reached = 0
        for each in self.ranges:
            reached = max(reached, each.last) if each.first <= reached else reached
        return reached >= self.size


class AbsentFile(NamedTuple):
    """A file that the ledger has ranges of, and that is there no more as it was then.

    Attributes:
        unit: its name in the ledger.
        ranges: those of it.
        is_changed: whether another file has its name now, of which the ledger has nothing.
    """

    unit: str
    ranges: Sequence[LedgerRange]
    is_changed: bool


@dataclass(frozen=True)
class Landing:
    """Where a source's files land, and how the ledger names them.

    Attributes:
        pipeline: the pipeline's name.
        folder: in which they arrive; None: they are records of Kafka.
        archive: where they are moved to after they were loaded; None: nowhere.
        prefix: how the ledger's names of them begin: that of a stream with what parts it from the file's name; nothing
            where the pipeline has one source.
    """

    pipeline: str
    folder: Path | None
    archive: Path | None
    prefix: str = ""

    @classmethod
    def of(cls, pipeline: str, source: Source, home: Home, prefix: str = "") -> Landing:
        """The landing of a source, in this installation."""
        if source.kafka is not None:
            return cls(pipeline, None, None, prefix)
        policy = source.after_load
        archive = None if policy == "keep" else policy.archive_folder(home)
        return cls(pipeline, source.resolved_path(home), archive, prefix)


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


def ledger_ranges(cursor: extensions.cursor, pipeline: str, prefix: str) -> Iterator[LedgerRange]:
    """All ranges of a pipeline whose units begin so, unit by unit; in bounded memory."""
    with cursor.connection.cursor("ranges") as rows:
        rows.itersize = _RANGES_AT_ONCE
        rows.execute(_RANGES, [pipeline, prefix])
        yield from map(LedgerRange._make, rows)


def accounted_files(
    cursor: extensions.cursor, landing: Landing, landed: Mapping[str, Path]
) -> Iterator[LandedFile | AbsentFile]:
    """All files that have landed, or that the ledger knows, with their ranges.

    Args:
        cursor: in the proof's transaction.
        landing: where they land.
        landed: the landing folder's files.
    """
    unknown = dict(landed)
    rows = ledger_ranges(cursor, landing.pipeline, landing.prefix)
    for unit, of_unit in groupby(rows, lambda each: each.unit):
        yield from _with_ranges(unit, list(of_unit), unknown.pop(unit, None), landing)
    for unit, path in unknown.items():
        file = LandedFile.at(unit, path)
        if file is not None:
            yield file


def _with_ranges(
    unit: str, ranges: Sequence[LedgerRange], landed: Path | None, landing: Landing
) -> Iterator[LandedFile | AbsentFile]:
    """The files of one name; each of several that had it one after the other has ranges of its own."""
    file = None if landed is None else LandedFile.at(unit, landed)
    own = [each for each in ranges if file is not None and file.is_of(each)]
    may_be_stored = [each for each in ranges if each.state != "retried" or each.was_loaded or each.was_given_up]
    absent = [each for each in may_be_stored if each not in own]
    for archived in _archived(unit, absent, landing):
        yield archived
        absent = [each for each in absent if not archived.is_of(each)]
    is_changed = not own and any(each.state == "loaded" and each.size and not each.was_removed for each in absent)
    if file is not None:
        is_retried = any(each.state == "to retry" for each in ranges)
        yield replace(file, ranges=[each for each in own if each.state != "retried"], is_retried=is_retried)
    if absent:
        yield AbsentFile(unit, absent, is_changed and file is not None)


def _archived(unit: str, ranges: Sequence[LedgerRange], landing: Landing) -> Iterator[LandedFile]:
    """The archived files of these ranges; one whose name was taken has its time of change behind it."""
    if landing.archive is None:
        return
    name = name_of(unit.removeprefix(landing.prefix))
    for candidate in {name, *(f"{name}.{each.modified_ns}" for each in ranges)}:
        file = LandedFile.at(unit, landing.archive / candidate)
        own = [each for each in ranges if file is not None and file.is_of(each)]
        if file is not None and own:
            yield replace(file, ranges=own)


class PlannedFiles:
    """The files of one landing that batches have taken, and when.

    Args:
        cursor: in the proof's transaction.
        landing: where they have landed.
    """

    def __init__(self, cursor: extensions.cursor, landing: Landing) -> None:
        cursor.execute(_BEGUN, [landing.pipeline, landing.prefix])
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
