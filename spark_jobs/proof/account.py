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
from spark_jobs.proof.coverage import LEFT_OUT, PENDING, Coverage, counts_as
from spark_jobs.proof.ids import EventIds
from spark_jobs.proof.landing import AbsentFile, LandedFile, LedgerRange
from spark_jobs.proof.planning import PlannedFiles
from spark_jobs.proof.records import read_records
from spark_jobs.proof.report import Findings
from spark_jobs.proof.staging import Staging


@dataclass
class AbsentRecords:
    """Records that were loaded, or may have been, and can't be read again: what became of them can't be proved.

    Attributes:
        units: the files that they were in.
        count: how many they were; None where nobody has counted all of them.
    """

    units: list[str] = field(default_factory=list)
    count: int | None = 0

    def add(self, unit: str, ranges: Sequence[LedgerRange]) -> None:
        """Add those of a file's ranges; of a range that was given up nobody knows how many were stored."""
        if not ranges:
            return
        counts = [None if each.was_given_up else each.records for each in ranges]
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
            self._give_up(file.unit, file.ranges)
            self._miss(file.unit, file.ranges, "changed" if file.is_changed else "gone", file.unit)
            return
        coverage = Coverage(file)
        self._give_up(file.unit, coverage.left_out())
        if not file.is_planned or any(counts_as(each) != LEFT_OUT for each in file.ranges):
            self._read(file, coverage)

    def _read(self, file: LandedFile, coverage: Coverage) -> None:
        number = len(self.labels)
        self.labels.append(file.unit)
        self.arrivals.append(file.arrived)
        try:
            for landed in read_records(file, self._definition.source):
                states = coverage.add(landed.positions)
                kept = states != LEFT_OUT
                self._staging.add(number, states[kept] == PENDING, self._ids.identify(landed.where(kept)))
        except (UnreadableFileError, SourceRangeGoneError, OSError) as error:
            self._staging.discard(number)
            self._not_read(number, file, error)
            return
        self.records += coverage.records
        self._compare(file, coverage.found())
        if any(counts_as(each) == PENDING for each in file.ranges) or coverage.in_none or not file.ranges:
            self.pending_files += 1
        if coverage.in_none:
            self._look_for_later(file)

    def _compare(self, file: LandedFile, found: Sequence[int]) -> None:
        """Compare the records of the ranges with those that the ledger has counted."""
        for each, count in zip(file.ranges, found, strict=True):
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

    def _give_up(self, unit: str, ranges: Sequence[LedgerRange]) -> None:
        self.absent.add(unit, [each for each in ranges if each.was_given_up])

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
