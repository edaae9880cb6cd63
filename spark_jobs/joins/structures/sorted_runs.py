"""Sorted runs on disk, and what merges them: all sort-based joins of streams keep there what memory does not hold.

    run = extents in the spill store, each of tuples in order, none before those of the extent ahead of it

    run 0  | 3 5 9 | 9 12 | ...      a page of each in memory,
    run 1  | 1 4 | 8 8 30 | ...      the least tuple of all of them next:  1 3 4 5 8 8 9 9 12 ...
    run 2  | 9 9 | 40 | ...

Tuples are in order of key, and where they have it, high end (004 §3.1). A tuple that is in a result already carries its
id complemented, so that the mark goes with it to disk and back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_jobs.columns.jit import kernel, kernel_part

if TYPE_CHECKING:
    from spark_jobs.joins.stream_stream.spill import SpillStore

Int64Array = NDArray[np.int64]

KEY = 0
_VALUE_BYTES = 8
# Of an entry in a run's directory.
EXTENT, COUNT, REACH, GROUPS = range(4)
"""Rows of a directory: an extent, how many tuples it has; the last key at which any of them still matches tuples to
come, while the run is being written (CLOSED when none does); and the extent with their groups, -1 without."""
CLOSED = np.iinfo(np.int64).min
_ENTRY_VALUES = 4
_ENTRY_BYTES = _ENTRY_VALUES * _VALUE_BYTES
_FEWEST_ENTRIES = 4
# Of a run in the merge: the place of its next tuple in its page, how many tuples that has, whether more come after it,
# and whose it is.
_NEXT, _FILLED, _MORE, _STREAM, _GROUP = range(5)
_MARKS = 5
_NO_KEY = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Layout:
    """Which rows the int64 matrices have in which tuples of a join lie, shape (columns, n).

    Attributes:
        interval: whether the key is the low end of an interval.
        validity: whether tuples have starts and ends.
    """

    interval: bool
    validity: bool

    @property
    def high(self) -> int:
        """The row of high ends; that of keys where there are none."""
        return KEY + self.interval

    @property
    def start(self) -> int:
        """The row of starts; -1 without."""
        return self.high + 1 if self.validity else -1

    @property
    def end(self) -> int:
        """The row of ends; -1 without."""
        return self.high + 2 if self.validity else -1

    @property
    def id(self) -> int:
        """The row of ids, complemented where the tuple is in a result."""
        return self.columns - 1

    @property
    def columns(self) -> int:
        """How many rows a tuple has on disk."""
        return 2 + self.interval + 2 * self.validity

    @property
    def stream(self) -> int:
        """In tables in memory: the row that tells the stream."""
        return self.columns

    @property
    def group(self) -> int:
        """In tables in memory: the row that tells which tuples were together before."""
        return self.columns + 1

    @property
    def link(self) -> int:
        """In tables in memory: a row for the sweep."""
        return self.columns + 2

    @property
    def table_rows(self) -> int:
        """How many rows a table in memory has."""
        return self.columns + 3

    @property
    def tuple_bytes(self) -> int:
        """Bytes of a tuple on disk."""
        return self.columns * _VALUE_BYTES

    @property
    def table_bytes(self) -> int:
        """Bytes of a tuple in a table in memory."""
        return self.table_rows * _VALUE_BYTES

    def page_tuples(self, page_bytes: int) -> int:
        """How many tuples a page holds; at least 1."""
        return max(1, page_bytes // self.tuple_bytes)


def order_of(keys: Int64Array, highs: Int64Array | None) -> Int64Array:
    """The order in which runs hold tuples: by key, then by high end, then as they are. O(n log n)."""
    return np.argsort(keys, kind="stable") if highs is None else np.lexsort((highs, keys))


class Run:
    """Tuples of one stream in order, on disk, in extents whose numbers a directory holds.

    The directory's older part goes to disk too, page by page, so that memory takes 8 bytes for each page of numbers.

    Args:
        store: where the extents are.

    Attributes:
        count: how many tuples.
    """

    def __init__(self, store: SpillStore) -> None:
        self.count = 0
        self._store = store
        self._entries: Int64Array = np.empty((_ENTRY_VALUES, _FEWEST_ENTRIES), np.int64)
        self._recent = 0
        self._pages: Int64Array = np.empty(0, np.int64)

    @property
    def extents(self) -> int:
        """How many extents the run has."""
        return len(self._pages) * self._page_entries + self._recent

    @property
    def _page_entries(self) -> int:
        return Run.directory_page_bytes(self._store.page_bytes) // _ENTRY_BYTES

    @property
    def reader_bytes(self) -> int:
        """What a reader needs besides the tuples: a page of the directory, where a part of that lies on disk."""
        return self._page_entries * _ENTRY_BYTES if len(self._pages) else 0

    @staticmethod
    def directory_page_bytes(page_bytes: int) -> int:
        """Memory of a page of a directory; the most that a settled run's directory takes, but for numbers of pages."""
        return max(_FEWEST_ENTRIES, page_bytes // _ENTRY_BYTES) * _ENTRY_BYTES

    @property
    def directory_pages(self) -> int:
        """How many pages the directory has, with that in memory."""
        return len(self._pages) + 1

    def append(self, columns: Int64Array, reach: int = CLOSED, groups: int = -1) -> None:
        """Write tuples that come after all others as one extent.

        Args:
            columns: int64, shape (columns, n), n > 0.
            reach: the last key at which they match tuples to come.
            groups: the extent with their groups.
        """
        if self._recent == self._page_entries:
            self._pages = np.append(self._pages, self._store.write(self._entries[:, : self._recent]))
            self._recent = 0
        if self._recent == self._entries.shape[1]:
            entries = np.empty((_ENTRY_VALUES, min(2 * self._recent, self._page_entries)), np.int64)
            entries[:, : self._recent] = self._entries
            self._entries = entries
        self._entries[:, self._recent] = self._store.write(columns), columns.shape[1], reach, groups
        self._recent += 1
        self.count += columns.shape[1]

    def directory(self, page: int) -> Int64Array:
        """Entries of extents, shape (4, e): a page of the directory; the last of them is in memory."""
        if page < len(self._pages):
            return self._store.read(int(self._pages[page]))
        return self._entries[:, : self._recent]

    def change_directory(self, page: int, entries: Int64Array) -> None:
        """Write a page of the directory anew."""
        if page < len(self._pages):
            self._store.remove(int(self._pages[page]))
            self._pages[page] = self._store.write(entries)
        else:
            self._entries[:, : self._recent] = entries

    def remove(self) -> None:
        """Forget the run."""
        for page in range(len(self._pages) + 1):
            for extent in self.directory(page)[EXTENT].tolist():
                self._store.remove(extent)
        for extent in self._pages.tolist():
            self._store.remove(extent)
        self._recent, self._pages, self.count = 0, self._pages[:0], 0

    def check(self, layout: Layout) -> None:
        """Assert that the tuples are as many as told, and in order. Reads all of them."""
        before = None
        count = 0
        for columns in whole(self):
            ordered = np.lexsort((columns[layout.high], columns[KEY]))
            assert (np.diff(columns[[KEY, layout.high]][:, ordered]) == np.diff(columns[[KEY, layout.high]])).all()
            first, last = (tuple(columns[[KEY, layout.high], end].tolist()) for end in (0, -1))
            assert before is None or before <= first
            before = last
            count += columns.shape[1]
        assert count == self.count

    def memory_used(self) -> int:
        """Bytes of the directory in memory."""
        return self._entries.nbytes + self._pages.nbytes


class Source(NamedTuple):
    """A run that takes part in a merge.

    Attributes:
        run: whose tuples are read.
        stream: the stream that they are of.
        group: a number from 0 on that all runs have which were written together; -1 if that does not matter.
    """

    run: Run
    stream: int
    group: int = -1


class RunMerge:
    """Tuples of several runs in one order, read page by page.

    It can be paused: it then gives its pages back, and remembers how far it has come in each run (004 §4.2).

    Args:
        store: where the runs are.
        layout: of their tuples.
        sources: at least one.
        memory_bytes: for pages; a run's share of it is read at once.
    """

    def __init__(self, store: SpillStore, layout: Layout, sources: Sequence[Source], memory_bytes: int) -> None:
        self.sources = tuple(sources)
        self.left = sum(source.run.count for source in sources)
        self._store = store
        self._layout = layout
        page = layout.page_tuples(store.page_bytes)
        directories = sum(source.run.reader_bytes for source in sources)
        share = (memory_bytes - directories) // (max(1, len(sources)) * layout.tuple_bytes) - _MARKS
        self._room = max(page, share - share % page)
        self._directories: list[tuple[int, Int64Array] | None] = [None] * len(sources)
        self._marks: Int64Array = np.zeros((len(sources), _MARKS), np.int64)
        for number, source in enumerate(sources):
            self._marks[number, _MORE:] = source.run.count > 0, source.stream, source.group
        # Extent, and place in it, of the first tuple that the page in memory was filled with.
        self._extents: Int64Array = np.zeros((len(sources), 2), np.int64)
        self._pages: Int64Array | None = None

    @staticmethod
    def bytes_for(layout: Layout, page_bytes: int, runs: int) -> int:
        """The least memory for so many runs: a page of each, and one of its directory."""
        page = layout.page_tuples(page_bytes) * layout.tuple_bytes
        directory = Run.directory_page_bytes(page_bytes)
        return runs * (page + directory + (_MARKS + 2) * _VALUE_BYTES)

    def take(self, table: Int64Array, first: int, until: int) -> int:
        """Put the next tuples into a table's columns from `first` on; at most until `until`, all if there are fewer.

        Args:
            table: int64, shape (layout.table_rows, n).
            first: the first column.
            until: before which to stop.

        Returns:
            Before which column it stopped. O(log runs) a tuple.
        """
        if self._pages is None:
            self._pages = np.empty((len(self.sources), self._layout.columns, self._room), np.int64)
        begun = first
        while first < until and first - begun < self.left:
            for number in np.flatnonzero(
                (self._marks[:, _NEXT] == self._marks[:, _FILLED]) & (self._marks[:, _MORE] > 0)
            ):
                self._fill(int(number))
            first = _merge(self._pages, self._marks, self._layout.high, table, first, until)
        self.left -= first - begun
        return first

    def pause(self) -> None:
        """Give the pages back. What was read of them, and not taken, is read again later."""
        self._extents[:, 1] += self._marks[:, _NEXT]
        self._marks[:, _MORE] |= self._marks[:, _FILLED] > self._marks[:, _NEXT]
        self._marks[:, [_NEXT, _FILLED]] = 0
        self._pages = None
        self._directories = [None] * len(self.sources)

    def memory_used(self) -> int:
        """Bytes of pages, pages of directories, and marks."""
        pages = 0 if self._pages is None else self._pages.nbytes
        directories = sum(source.run.reader_bytes for source in self.sources) if pages else 0
        return pages + directories + self._marks.nbytes + self._extents.nbytes

    def _entry(self, number: int, extent: int) -> tuple[int, int]:
        """Number and count of an extent of a run."""
        run = self.sources[number].run
        page, place = divmod(extent, run._page_entries)
        page = min(page, len(run._pages))
        held = self._directories[number]
        if held is None or held[0] != page:
            held = page, run.directory(page)
            self._directories[number] = held
        place = extent - page * run._page_entries
        return int(held[1][EXTENT, place]), int(held[1][COUNT, place])

    def _fill(self, number: int) -> None:
        """Read the next page of a run."""
        assert self._pages is not None
        run, marks = self.sources[number].run, self._marks[number]
        extent, first = int(self._extents[number, 0]), int(self._extents[number, 1] + marks[_NEXT])
        located, count = self._entry(number, extent)
        if first == count:
            extent, first = extent + 1, 0
            located, count = self._entry(number, extent)
        # Up to the end of a page, so that after a pause no page is read in two parts from there on.
        page = self._layout.page_tuples(self._store.page_bytes)
        taken = min(count - first, self._room - first % page)
        self._pages[number, :, :taken] = self._store.read(located, first, taken)
        self._extents[number] = extent, first
        marks[_NEXT], marks[_FILLED] = 0, taken
        marks[_MORE] = first + taken < count or extent + 1 < run.extents


def whole(run: Run) -> Iterator[Int64Array]:
    """The tuples of a run, extent by extent, each int64, shape (columns, n)."""
    for page in range(len(run._pages) + 1):
        for extent in run.directory(page)[EXTENT].tolist():
            yield run._store.read(extent)


@kernel_part
def _before(a: Any, b: Any, keys: Any, ties: Any, over: Any) -> Any:
    """Whether run a's next tuple comes before run b's."""
    if keys[a] != keys[b]:
        return keys[a] < keys[b]
    if ties[a] != ties[b]:
        return ties[a] < ties[b]
    if over[a] != over[b]:
        return over[a] < over[b]
    return a < b


@kernel_part
def _play(losers: Int64Array, keys: Int64Array, ties: Int64Array, over: Int64Array) -> Any:
    """Let every two runs meet, and those that won, up to the last: which run has the least tuple."""
    leaves = len(losers)
    winners = np.empty(2 * leaves, np.int64)
    for run in range(leaves):
        winners[leaves + run] = run
    for node in range(leaves - 1, 0, -1):
        a, b = winners[2 * node], winners[2 * node + 1]
        if _before(b, a, keys, ties, over):
            a, b = b, a
        winners[node], losers[node] = a, b
    return winners[1]


@kernel
def _merge(pages: Int64Array, marks: Int64Array, tie: int, table: Int64Array, first: int, until: int) -> int:
    """Take the least tuple again and again, by a tree of losers, until a page is used up and there are more of its run.

    Returns the column reached.
    """
    runs, columns = len(pages), pages.shape[1]
    leaves = 1
    while leaves < runs:
        leaves *= 2
    keys, ties, over = np.empty(leaves, np.int64), np.empty(leaves, np.int64), np.empty(leaves, np.int64)
    for run in range(leaves):
        keys[run], ties[run], over[run] = _NO_KEY, _NO_KEY, 1
        place = marks[run, _NEXT] if run < runs else np.int64(0)
        if run < runs and place < marks[run, _FILLED]:
            keys[run], ties[run], over[run] = pages[run, KEY, place], pages[run, tie, place], 0
    losers = np.empty(leaves, np.int64)
    winner = _play(losers, keys, ties, over)
    while first < until and not over[winner]:
        place = marks[winner, _NEXT]
        for column in range(columns):
            table[column, first] = pages[winner, column, place]
        table[columns, first], table[columns + 1, first] = marks[winner, _STREAM], marks[winner, _GROUP]
        first += 1
        place += 1
        marks[winner, _NEXT] = place
        if place < marks[winner, _FILLED]:
            keys[winner], ties[winner] = pages[winner, KEY, place], pages[winner, tie, place]
        elif marks[winner, _MORE]:
            break
        else:
            keys[winner], ties[winner], over[winner] = _NO_KEY, _NO_KEY, 1
        node = (leaves + winner) // 2
        while node:
            other = losers[node]
            if _before(other, winner, keys, ties, over):
                losers[node], winner = winner, other
            node //= 2
    return first
