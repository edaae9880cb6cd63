"""A landing folder as a stream: which files are new, in what order they are read, and in which pieces."""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.errors import SourceAwayError, SourceRangeGoneError
from spark_jobs.ledger.source_ranges import SourceRange
from spark_jobs.ledger.unread import Unread
from spark_jobs.ledger.unread_files import landing_time
from spark_jobs.source.files.names import compression_of, is_landed, modified_ns_of, name_of, unit_of
from spark_jobs.source.files.planned_file import FileSlice
from spark_jobs.source.files.regular_files import regular_status
from spark_jobs.source.landed_source import SingleSource
from spark_jobs.source.record_lines import line_end_at_or_after

_log = logging.getLogger(__name__)

MOST_RANGES = 10_000
# A file is not cut into less: smaller pieces cost more to begin than they are worth.
_SMALLEST_RANGE = 1 << 20
_SMALLEST_SLICE = 4 << 20
# A folder may be changed again within one tick of its file system's clock: it counts as unchanged only when it has
# been seen unchanged for longer, by a clock of our own.
_CLOCK_TICK_SECONDS = 2.0
# Files that have been taken are looked at again, this many at a time: one may have been written to.
_LOOKED_AT_AGAIN = 2_000
_LOOK_AGAIN_SECONDS = 1.0


@dataclass(frozen=True)
class _Version:
    """What tells files of one name apart."""

    size: int
    modified_ns: int | None

    def is_of(self, status: os.stat_result) -> bool:
        return (self.size, self.modified_ns) == (status.st_size, modified_ns_of(status))


class LandedFiles(SingleSource):
    """The files of one landing folder: those of the folder itself, not of its subfolders.

    Empty files, and names that begin with "." or "_" (unless they hold a "=") or end in "._COPYING_", are still being
    written and left alone; links, which are named once, and special files are, too. Files are taken in the order in
    which they landed, by (mtime, name) among those that are seen. What has been taken is known by name, size and mtime;
    the ledger remembers it, `resume` brings it back.

    Listing is what a look costs: O(files in the folder), and nothing while the folder's own mtime stays; the files
    themselves are looked at once, when they are new. Memory: the names of the files that are in the folder.

    Args:
        folder: the landing folder.
        cuttable: whether a file may be read in pieces: its records are lines.

    Attributes:
        unread: what was seen and left when ranges were taken last; None before that. Any thread may ask.
    """

    def __init__(self, folder: Path, *, cuttable: bool) -> None:
        self._folder = folder
        self._cuttable = cuttable
        self._known: dict[str, _Version] = {}  # taken whole, or not to be taken
        self._begun: dict[str, tuple[_Version, int]] = {}  # taken up to an offset
        self._waiting: list[tuple[int, str, int]] = []  # a heap of (mtime in ns, name, size)
        self._named: set[str] = set()  # those in the heap
        self._listed_at_ns = -1  # the folder's mtime when it was listed; -1: it has to be listed
        self._folder_seen = (-1, 0.0)  # the folder's mtime, and since when we have seen it
        self._may_come = False  # whether a file was left alone that may be written without a change of the folder
        self._links: set[str] = set()  # told of
        self._again: Iterator[str] = iter(())
        self._looked_again = 0.0
        self._looked_at = time.monotonic()
        self.unread: Unread | None = None

    @property
    def has_waiting(self) -> bool:
        """Whether there are files that have been seen and not been taken whole."""
        return bool(self._waiting)

    def resume(self, taken: Callable[[list[str]], Iterable[tuple[str, int, int | None, int | None]]]) -> None:
        """Begin anew with what the ledger knows; before the first look.

        A file of another size or mtime than what was taken under its name is a new one: nobody saw whether it was
        replaced or written to, and the ids of its events tell those that were loaded.

        Args:
            taken: of these units: (unit, offset after the last byte that was taken, size, mtime in ns), maybe several
                of one name: of what it held at different times.
        """
        self._known, self._begun, self._waiting, self._named = {}, {}, [], set()
        found = {name for name in self._list() if is_landed(name)}
        by_name: dict[str, list[tuple[_Version, int]]] = {}
        for unit, last, size, modified_ns in taken([unit_of(name) for name in found]):
            name = name_of(unit)
            if size is not None:  # a file that was gone before its size was known is not the one that is there
                by_name.setdefault(name, []).append((_Version(size, modified_ns), last))
        for name, versions in by_name.items():
            status = self._status(name)
            same = [each for each in versions if status is not None and each[0].is_of(status)]
            if status is None or not same:
                continue  # the name stands for another file now, which was not taken
            version, last = max(same, key=lambda each: each[1])
            if last < status.st_size:
                self._begun[name] = (version, last)
            else:
                self._known[name] = version
        self._listed_at_ns = -1

    def look(self) -> None:
        """See what has landed since the last look.

        Raises:
            SourceAwayError: the folder can't be listed; the message says what to do.
        """
        try:
            modified_ns = self._folder.stat().st_mtime_ns
        except OSError as error:
            raise self._away(error) from error
        now = time.monotonic()
        if modified_ns == self._listed_at_ns:
            self._looked_at = now
            return
        if modified_ns != self._folder_seen[0]:
            self._folder_seen = (modified_ns, now)
        self._may_come = now - self._folder_seen[1] < _CLOCK_TICK_SECONDS
        found = self._list()
        new = found - self._known.keys() - self._named
        self._links &= found
        self._forget_removed(found, len(found) - len(new))
        for name in new:
            if is_landed(name):  # asked of new names only: there may be a million known ones
                self._see(name)
        self._listed_at_ns = -1 if self._may_come else modified_ns
        self._looked_at = now

    def take(self, most_bytes: int) -> list[SourceRange]:
        """The next ranges, in order: at most `most_bytes`, but at least one range where there is any.

        They count as taken from now on. A file larger than that is cut after a line's end if it may be.
        """
        taken: list[SourceRange] = []
        left = most_bytes
        while self._waiting and len(taken) < MOST_RANGES and (left > 0 or not taken):
            modified_ns, name, size = self._waiting[0]
            first = self._begun_at(name)
            if size - first > left and taken:
                break
            status = self._status(name)
            if status is None or (status.st_size, modified_ns_of(status)) != (size, modified_ns):
                self._drop_first()
                self._listed_at_ns = -1  # it went, or is being written: the next look tells
                continue
            last = self._end(name, first, size, max(left, _SMALLEST_RANGE))
            taken.append(SourceRange(unit_of(name), first, last, size, modified_ns, kind="files"))
            left -= last - first
            if last < size:
                self._begun[name] = (_Version(size, modified_ns), last)
            else:
                self._drop_first()
                self._begun.pop(name, None)
                self._known[name] = _Version(size, modified_ns)
        landed_at = landing_time(self._waiting[0][0]) if self._waiting else None
        size = sum(size - self._begun_at(name) for _, name, size in self._waiting)
        self.unread = Unread(len(self._waiting), size, landed_at, self._looked_at)
        return taken

    def forget(self, units: Iterable[str]) -> None:
        """Let files of these names be taken again, whole."""
        for unit in units:
            name = name_of(unit)
            known, begun = self._known.pop(name, None), self._begun.pop(name, None)
            if known or begun:
                self._listed_at_ns = -1  # of what is not there no look can find more than the last one

    def changed(self) -> list[SourceRange]:
        """Files that were written to after they had been taken, as they are now; each is told once.

        A call looks at some of the files, the next one at others, at most once a second.
        """
        if time.monotonic() - self._looked_again < _LOOK_AGAIN_SECONDS:
            return []
        self._looked_again = time.monotonic()
        names = list(itertools.islice(self._again, _LOOKED_AT_AGAIN))
        if len(names) < _LOOKED_AT_AGAIN:
            self._again = iter(list(self._known))
        found = []
        for name in names:
            version, status = self._known.get(name), self._status(name)
            if version is not None and status is not None and not version.is_of(status):
                now = _Version(status.st_size, modified_ns_of(status))
                found.append(SourceRange(unit_of(name), 0, now.size, now.size, now.modified_ns, kind="files"))
                self._known[name] = now
        return found

    def pieces(self, ranges: Sequence[tuple[int, SourceRange]], parts: int) -> list[list[FileSlice]]:
        """The slices of ranges, dealt out to at most `parts` tasks of about the same number of bytes.

        Args:
            ranges: with their numbers in the batch.
            parts: tasks.
        """
        share = max(sum(each.bytes for _, each in ranges) // parts, _SMALLEST_SLICE)
        slices = [piece for number, each in ranges for piece in self._slices(number, each, share)]
        tasks: list[tuple[int, int, list[FileSlice]]] = [(0, number, []) for number in range(min(parts, len(slices)))]
        for piece in sorted(slices, key=lambda each: each.first - each.last):
            size, number, pieces = tasks[0]
            pieces.append(piece)
            heapq.heapreplace(tasks, (size + piece.last - piece.first, number, pieces))
        return [sorted(pieces, key=lambda each: (each.range_no, each.first)) for _, _, pieces in tasks]

    def _slices(self, number: int, planned: SourceRange, share: int) -> Iterable[FileSlice]:
        name, first = name_of(planned.unit), planned.first
        assert planned.size is not None
        assert planned.modified_ns is not None  # what is to be read was seen
        path = str(self._folder / name)
        count = -(-planned.bytes // share) if self._is_cuttable(name) else 1
        for number_of_slice in range(1, count + 1):
            cut = planned.first + planned.bytes * number_of_slice // count
            last = planned.last if number_of_slice == count else min(self._line_end(name, cut), planned.last)
            if last > first:
                yield FileSlice(number, path, first, last, planned.size, planned.modified_ns, planned.poison)
            first = last

    def _end(self, name: str, first: int, size: int, most: int) -> int:
        """Where a range that begins at `first` ends."""
        if size - first <= most or not self._is_cuttable(name):
            return size
        return min(self._line_end(name, first + most), size)

    def _line_end(self, name: str, offset: int) -> int:
        try:
            return line_end_at_or_after(self._folder / name, offset)
        except OSError as error:
            raise SourceRangeGoneError(f"{self._folder / name} can't be read: {error.strerror or error}.") from error

    def _is_cuttable(self, name: str) -> bool:
        return self._cuttable and compression_of(name) is None

    def _begun_at(self, name: str) -> int:
        begun = self._begun.get(name)
        return begun[1] if begun else 0

    def _drop_first(self) -> None:
        _, name, _ = heapq.heappop(self._waiting)
        self._named.discard(name)

    def _see(self, name: str) -> None:
        status = self._status(name)
        if status is None and os.path.islink(os.path.join(self._folder, name)):
            self._tell_link(name)
            return
        if status is None or not status.st_size:
            self._may_come = True
            return
        begun = self._begun.get(name)
        if begun is not None and not begun[0].is_of(status):
            # What was read of it was read of something else.
            del self._begun[name]
            self._known[name] = begun[0]
            return
        heapq.heappush(self._waiting, (modified_ns_of(status), name, status.st_size))
        self._named.add(name)

    def _tell_link(self, name: str) -> None:
        if name not in self._links:
            self._links.add(name)
            path = os.fsencode(self._folder / name).decode("utf-8", "backslashreplace")
            _log.warning(
                "%s is a link, and is not read: it may lead to what only this user may read. Let the file itself land, "
                "as a copy or a hard link.",
                path,
            )

    def _forget_removed(self, found: set[str], still_there: int) -> None:
        """A file that is gone is not known any more: what comes under its name is a new one.

        Args:
            found: all names in the folder.
            still_there: how many of them were known, or waited, before.
        """
        for name in self._begun.keys() - found:
            del self._begun[name]
        if still_there == len(self._known) + len(self._named):
            return  # to look for those that are gone would take half as long as to list the folder
        for name in self._known.keys() - found:
            del self._known[name]
        gone = self._named - found
        if gone:
            self._waiting = [each for each in self._waiting if each[1] not in gone]
            heapq.heapify(self._waiting)
            self._named -= gone

    def _list(self) -> set[str]:
        try:
            return set(os.listdir(self._folder))
        except OSError as error:
            raise self._away(error) from error

    def _status(self, name: str) -> os.stat_result | None:
        """Of the file that the name stands for; None where it stands for anything else, or can't be looked at."""
        return regular_status(os.path.join(self._folder, name))

    def _away(self, error: OSError) -> SourceAwayError:
        return SourceAwayError(
            f"The landing folder {self._folder} can't be read: {error.strerror or error}. "
            "The stream waits until it can; nothing is lost."
        )
