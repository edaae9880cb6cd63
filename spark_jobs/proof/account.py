"""Reads all landed files of a source into a temporary table, and compares them with the ledger's account of its ranges.

A file that was read more than once has records that lie in several ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress

from spark_jobs.errors import SourceRangeGoneError, UnreadableFileError
from spark_jobs.ledger.stated_ranges import LedgerRange
from spark_jobs.proof.landed_records import LandedRecords, landed_records
from spark_jobs.proof.proof import Findings
from spark_jobs.proof.staged_events import NO_RANGE, StagedEvents, Staging
from spark_jobs.source.landed_units import AbsentUnit, LandedUnit, Landing
from spark_jobs.source.slice_reading import SliceReader

Int64Array = NDArray[np.int64]

LOADED, PENDING, LEFT_OUT, _IN_NONE = range(4)
"""What records count as, for their range. Those of several ranges count as the least of what these say."""

_FAR = np.iinfo(np.int64).max


@dataclass
class AbsentRecords:
    """Records that were loaded, or may have been, and can't be read again: what became of them can't be proved.

    Attributes:
        units: the files that they were in.
        count: how many they were at most; None where nothing bounds them.
    """

    units: list[str] = field(default_factory=list)
    count: int | None = 0

    def explain(self, unlanded: int) -> int:
        """How many of the tuples that are stored and have not landed may be of these; no others may be any more."""
        explained = unlanded if self.count is None else min(unlanded, self.count)
        if self.count is not None:
            self.count -= explained
        return explained

    def add(self, unit: str, counts: Sequence[int | None]) -> None:
        """Add those of a file: of each range, how many they are at most; None where nothing bounds them."""
        if not any(count != 0 for count in counts):
            return
        self.units.append(unit)
        self.count = None if self.count is None or None in counts else self.count + sum(filter(None, counts))


class IdentifiesRecords(Protocol):
    """Gives landed records their ids."""

    def identify(self, landed: LandedRecords) -> StagedEvents:
        """Records as they are staged."""

    def unreadable(self, path: Path) -> StagedEvents | None:
        """A file that can't be read, as one record, where the warehouse may know it as that."""


class Account:
    """What has landed of a source, as files and ledger tell it.

    Args:
        landing: what it holds.
        reader: reads it, as tasks do.
        ids: gives records their ids.
        staging: takes the records.
        findings: takes differences between files and ledger, and notes.

    Attributes:
        labels: how to name each file that was read, by its number.
        arrivals: when each of them arrived.
        pending_files: how many of them are not loaded, or not to their end.
        records: how many records they hold.
        absent: the records that were loaded and can't be read again.
    """

    def __init__(
        self,
        landing: Landing,
        reader: SliceReader,
        ids: IdentifiesRecords,
        staging: Staging,
        findings: Findings,
    ) -> None:
        self._landing = landing
        self._reader = reader
        self._ids = ids
        self._staging = staging
        self._findings = findings
        self.labels: list[str] = []
        self.arrivals: list[datetime] = []
        self.pending_files = 0
        self.records = 0
        self.absent = AbsentRecords()

    def read(self, progress: Progress) -> None:
        """Take all files into account that have landed, or that the ledger knows."""
        units, total = self._landing.units(), self._landing.total
        for unit in progress.track(units, total=total, description=self._landing.told):
            self._enter(unit)
        self._staging.finish()

    def _enter(self, file: LandedUnit | AbsentUnit) -> None:
        for each in file.ranges:
            if each.state in {"set aside", "lost"} and not each.was_dismissed:
                self._findings.add(each.state.replace(" ", "_"), self._named(file, each) + f": {each.reason}")
        if isinstance(file, AbsentUnit):
            self._give_up(file.unit, file.ranges)
            self._miss(file.unit, file.ranges, "changed" if file.is_changed else "gone", file.unit)
            return
        coverage = Coverage(file)
        self._give_up(file.unit, coverage.left_out())
        if not file.is_planned or any(counts_as(each) != LEFT_OUT for each in file.ranges):
            self._read(file, coverage)

    def _read(self, file: LandedUnit, coverage: Coverage) -> None:
        number = len(self.labels)
        self.labels.append(file.unit)
        self.arrivals.append(file.arrived)
        try:
            for landed in landed_records(self._reader(file.whole), self._reader.source):
                states = coverage.add(landed.positions)
                kept = states != LEFT_OUT
                positions = landed.positions[kept]
                events = self._ids.identify(landed.where(kept))
                self._staging.add(number, states[kept] == PENDING, events, coverage.loaded_by(positions), positions)
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

    def _compare(self, file: LandedUnit, found: Sequence[int]) -> None:
        """Compare the records of the ranges with those that the ledger has counted."""
        for each, count in zip(file.ranges, found, strict=True):
            if each.state != "loaded" or each.records in (None, count):
                continue
            if file.drops_records and each.records is not None and count < each.records:
                removed = each.records - count
                self.absent.add(file.unit, [removed])
                told = f"{removed:,} records are not in {file.where} any more"
                self._findings.add("gone", f"{self._named(file, each)}: {told}")
            else:
                told = f"{each.records:,} by the ledger, {count:,} in {file.where}"
                self._findings.add("arrived", f"{self._named(file, each)}: {told}")

    def _not_read(self, number: int, file: LandedUnit, error: Exception) -> None:
        """A file that can't be read; former versions have rejected a Parquet file whole that they could not read."""
        loaded = [each for each in file.ranges if each.was_loaded]
        path = file.rejected_path
        rejected = None if path is None else self._ids.unreadable(path)
        if (fault := file.fault(error)) is not None:
            self._miss(file.unit, loaded, *fault)
        elif loaded and rejected is not None:
            self.records += 1
            self._staging.add(
                number, np.array([False]), rejected, np.array([loaded[0].range_id]), np.zeros(1, np.int64)
            )
        elif loaded:
            self._miss(file.unit, loaded, "unreadable", f"{file.unit}: {error}")
        else:
            self.pending_files += 1
            self._findings.add("unreadable", f"{file.unit}: {error}")
            self._look_for_later(file)

    def _look_for_later(self, file: LandedUnit) -> None:
        """A file that is not loaded to its end, and that later ones have overtaken."""
        if self._landing.passed_over(file):
            self._findings.add("passed_over", file.unit)

    def _give_up(self, unit: str, ranges: Sequence[LedgerRange]) -> None:
        self.absent.add(unit, [each.most_records(self._landing.room(each)) for each in ranges if each.was_given_up])

    def _miss(self, unit: str, ranges: Sequence[LedgerRange], kind: str, told: str) -> None:
        loaded = [each for each in ranges if each.was_loaded]
        if loaded:
            self.absent.add(unit, [each.most_records(self._landing.room(each)) for each in loaded])
            self._findings.add(kind, told)

    def _named(self, file: LandedUnit | AbsentUnit, each: LedgerRange) -> str:
        return file.unit if len(file.ranges) == 1 else f"{file.unit}, {each.measure} {each.first:,} to {each.last:,}"


def counts_as(planned: LedgerRange) -> int:
    """What the records of a range count as, for itself."""
    if planned.state in {"planned", "to retry"}:
        return PENDING
    return LOADED if planned.was_loaded else LEFT_OUT


class Coverage:
    """A file, cut where its ranges begin and end: what the records of each part count as, and how many they are.

    O(ranges log ranges), and O(ranges) more for each time that the file was read again.

    Args:
        file: with its ranges.
    """

    def __init__(self, file: LandedUnit) -> None:
        self._ranges = file.ranges
        # Positions in a packed file go beyond its size.
        spans = [(each.first, _FAR if each.last >= file.size else each.last) for each in file.ranges]
        ends = np.array(spans, np.int64).reshape(-1, 2)
        self._edges = np.unique(ends)
        self._parts = (np.searchsorted(self._edges, ends) + 1).tolist()  # of each range: the first, and that after it
        self._counts_as = np.full(len(self._edges) + 1, _IN_NONE)
        self._loaded_by = np.full(len(self._edges) + 1, NO_RANGE)
        self._found = np.zeros(len(self._edges) + 1, np.int64)
        for each, (first, last) in zip(file.ranges, self._parts, strict=True):
            parts = self._counts_as[first:last]
            np.minimum(parts, counts_as(each), out=parts)
            if each.was_loaded:
                loaded_by = self._loaded_by[first:last]
                np.minimum(loaded_by, each.range_id, out=loaded_by)
        self._in_none = self._counts_as == _IN_NONE
        self._counts_as[self._in_none] = PENDING

    def add(self, positions: Int64Array) -> Int64Array:
        """Count records at these positions, and say what they count as; both int64, shape (n,). O(n log ranges)."""
        parts = np.searchsorted(self._edges, positions, "right")
        self._found += np.bincount(parts, minlength=len(self._found))
        return self._counts_as[parts]

    def loaded_by(self, positions: Int64Array) -> Int64Array:
        """The ledger's number of the range that records were loaded with first, or NO_RANGE; int64, shape (n,)."""
        return self._loaded_by[np.searchsorted(self._edges, positions, "right")]

    @property
    def records(self) -> int:
        """How many were counted; each once."""
        return int(self._found.sum())

    @property
    def in_none(self) -> int:
        """How many of them lie in no range."""
        return int(self._found[self._in_none].sum())

    def found(self) -> list[int]:
        """How many of them lie in each range."""
        return [int(self._found[first:last].sum()) for first, last in self._parts]

    def left_out(self) -> list[LedgerRange]:
        """The ranges of which records are left out: no other range has them."""
        return [
            each
            for each, (first, last) in zip(self._ranges, self._parts, strict=True)
            if (self._counts_as[first:last] == LEFT_OUT).any()
        ]
