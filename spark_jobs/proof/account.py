"""Reads all landed files into the temporary table, and compares them, range by range, with the ledger's account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

import numpy as np
from psycopg2 import extensions

from spark_jobs.definition import PipelineDefinition
from spark_jobs.errors import SourceRangeGoneError, UnreadableFileError
from spark_jobs.proof.ids import EventIds
from spark_jobs.proof.landing import AbsentFile, LandedFile, LedgerRange
from spark_jobs.proof.planning import PlannedFiles
from spark_jobs.proof.records import read_records
from spark_jobs.proof.report import Findings
from spark_jobs.proof.staging import Staging

_LOADED, _PENDING, _LEFT_OUT = range(3)
_COUNTS_AS = {"loaded": _LOADED, "planned": _PENDING, "to retry": _PENDING, "set aside": _LEFT_OUT, "lost": _LEFT_OUT}


@dataclass
class AbsentRecords:
    """Records that were loaded, and can't be read again: nothing can be proved about what became of them.

    Attributes:
        units: the files that they were in.
        count: how many they were; None where nobody has counted all of them.
    """

    units: list[str] = field(default_factory=list)
    count: int | None = 0

    def add(self, unit: str, ranges: Sequence[LedgerRange]) -> None:
        """Add those of a file's ranges."""
        counts = [each.records for each in ranges]
        self.units.append(unit)
        self.count = None if self.count is None or None in counts else self.count + sum(filter(None, counts))


class Account:
    """What has landed, as files and ledger tell it.

    Args:
        cursor: in the proof's transaction.
        definition: the pipeline.
        ids: gives records their ids.
        staging: takes the records.

    Attributes:
        labels: how to name each file that was read, by its number.
        arrivals: when each of them arrived.
        pending_files: how many of them are not loaded, or not to their end.
        records: how many records they hold.
        absent: the records that were loaded and can't be read again.
        findings: differences between files and ledger, and notes.
    """

    def __init__(
        self, cursor: extensions.cursor, definition: PipelineDefinition, ids: EventIds, staging: Staging
    ) -> None:
        self._cursor = cursor
        self._definition = definition
        self._ids = ids
        self._staging = staging
        self.labels: list[str] = []
        self.arrivals: list[datetime] = []
        self.pending_files = 0
        self.records = 0
        self.absent = AbsentRecords()
        self.findings = Findings()

    def enter(self, file: LandedFile | AbsentFile) -> None:
        """Take a file into account."""
        for each in file.ranges:
            if each.state in {"set aside", "lost"}:
                self.findings.add(each.state.replace(" ", "_"), _named(file, each) + f": {each.reason}")
        if isinstance(file, AbsentFile):
            self._miss(file.unit, file.ranges, "changed" if file.is_changed else "gone", file.unit)
        elif not file.is_planned or any(_COUNTS_AS[each.state] != _LEFT_OUT for each in file.ranges):
            self._read(file)

    def _read(self, file: LandedFile) -> None:
        number = len(self.labels)
        self.labels.append(file.path.name)
        self.arrivals.append(file.arrived)
        # The last one is that of records which are in no range: their number is -1.
        counts_as = np.array([*(_COUNTS_AS[each.state] for each in file.ranges), _PENDING])
        found = np.zeros(len(counts_as), np.int64)
        try:
            for landed in read_records(file, self._definition.source):
                ranges = file.ranges_of(landed.positions)
                found += np.bincount(ranges % len(counts_as), minlength=len(counts_as))
                kept = counts_as[ranges] != _LEFT_OUT
                pending = counts_as[ranges[kept]] == _PENDING
                self._staging.add(number, pending, self._ids.identify(landed.where(kept)))
        except (UnreadableFileError, SourceRangeGoneError, OSError) as error:
            self._staging.discard(number)
            self._not_read(number, file, error)
            return
        self.records += int(found.sum())
        self._compare(file, found.tolist())
        if (counts_as[:-1] == _PENDING).any() or found[-1] or not file.ranges:
            self.pending_files += 1
        if found[-1]:
            self._look_for_later(file)

    def _compare(self, file: LandedFile, found: Sequence[int]) -> None:
        """Compare the records of the ranges with those that the ledger has counted."""
        for each, count in zip(file.ranges, found, strict=False):
            if each.state == "loaded" and each.records not in (None, count):
                told = f"{each.records:,} by the ledger, {count:,} in the file"
                self.findings.add("arrived", f"{_named(file, each)}: {told}")

    def _not_read(self, number: int, file: LandedFile, error: Exception) -> None:
        """A file that can't be read; former versions have rejected a Parquet file whole that they could not read."""
        loaded = [each for each in file.ranges if each.was_loaded]
        rejected = self._ids.unreadable(file.path)
        if isinstance(error, SourceRangeGoneError):
            self._miss(file.unit, loaded, "changed" if file.path.exists() else "gone", file.unit)
        elif loaded and rejected is not None:
            self.records += 1
            self._staging.add(number, np.array([False]), rejected)
        elif loaded:
            self._miss(file.unit, loaded, "unreadable", f"{file.unit}: {error}")
        else:
            self.pending_files += 1
            self.findings.add("unreadable", f"{file.unit}: {error}")
            self._look_for_later(file)

    def _look_for_later(self, file: LandedFile) -> None:
        """A file that is not loaded to its end, and that later ones have overtaken."""
        if not file.is_planned and not file.is_retried and self._planned.passed_over(file):
            self.findings.add("passed_over", file.unit)

    def _miss(self, unit: str, ranges: Sequence[LedgerRange], kind: str, told: str) -> None:
        loaded = [each for each in ranges if each.was_loaded]
        if loaded:
            self.absent.add(unit, loaded)
            self.findings.add(kind, told)

    @cached_property
    def _planned(self) -> PlannedFiles:
        return PlannedFiles(self._cursor, self._definition.name)


def _named(file: LandedFile | AbsentFile, each: LedgerRange) -> str:
    return file.unit if len(file.ranges) == 1 else f"{file.unit}, bytes {each.first:,} to {each.last:,}"
