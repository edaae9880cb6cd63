r"""The multiple merge of PMJ: runs of all streams read at once in one order, joined, and written as one run a stream.

    runs of stream 0  =\
    runs of stream 0  ==\    table in memory               extents written
    runs of stream 1  ====>  | done | kept | new |  ====>  a longer run of stream 0
    runs of stream 1  ==/       ----sweep---->             a longer run of stream 1
    runs of stream 2  =/

Where so many tuples match at a key that memory can't keep them, they are written all the same, and what comes after
them is joined with what was written, extent by extent, until it is done: a block nested-loops join of that part.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.stream_stream.spill import SpillStore
from spark_jobs.joins.stream_stream.sweeps import Sweep
from spark_jobs.joins.structures.sorted_runs import (
    CLOSED,
    EXTENT,
    GROUPS,
    KEY,
    REACH,
    Layout,
    Run,
    RunMerge,
    Source,
    whole,
)
from spark_jobs.joins.structures.sweep import ALWAYS, LAST_TIME, Columns, Window

Int64Array = NDArray[np.int64]
_VALUE_BYTES = 8
# Numbers of columns, flags and a row of the table while tuples move up.
_SCRATCH_ROWS = 3
# Of the table: what lies there when more is to be made room for.
_FULL = 0.75


class MergeTable:
    """The memory in which multiple merges work, one after the other.

    Args:
        layout: of the tuples.
        streams: how many.
        page_bytes: of the spill store.
        memory_bytes: its budget.

    Attributes:
        tuples: int64, shape (layout.table_rows, n).
        reading: columns before this one are for extents that are read again.
        extent_tuples: how many tuples an extent has at most.
    """

    def __init__(self, layout: Layout, streams: int, page_bytes: int, memory_bytes: int) -> None:
        page = layout.page_tuples(page_bytes)
        each = layout.table_bytes + _SCRATCH_ROWS * _VALUE_BYTES
        extent = memory_bytes // (4 * streams * each)
        self.extent_tuples = max(page, extent - extent % page)
        writing = self.extent_tuples * (layout.tuple_bytes + layout.table_bytes)
        count = (memory_bytes - writing) // each
        self.reading = (streams - 1) * self.extent_tuples
        self.tuples: Int64Array = np.empty((layout.table_rows, count), np.int64)
        self._scratch = writing + count * _SCRATCH_ROWS * _VALUE_BYTES

    @staticmethod
    def least_bytes(layout: Layout, streams: int, page_bytes: int) -> int:
        """The smallest budget: a page to read again of each stream but one, and one of each to work on."""
        page = layout.page_tuples(page_bytes)
        each = layout.table_bytes + _SCRATCH_ROWS * _VALUE_BYTES
        return page * (layout.tuple_bytes + layout.table_bytes) + 2 * streams * page * each

    def memory_used(self) -> int:
        """Bytes of the table, and of what it takes to write from it."""
        return self.tuples.nbytes + self._scratch


class MultipleMerge:
    """Merges runs and joins their tuples on the way; without a sweep it only merges.

    It goes in steps of a number of tuples, and can be paused between them.

    Args:
        store: where the runs are.
        layout: of their tuples.
        streams: how many.
        sources: the runs; those of one group were written together, so that results of one group alone are known.
        sweep: joins; None to merge only.
        table: the memory to work in.
        page_memory: bytes for the pages that are read.
        window: results that begin in it are told, and tuples that end up to its end are dropped, where they are told
            as unmatched if they are in no result.
        ending: whether all tuples are dropped: no runs are left.

    Attributes:
        runs: one for each stream: what has been written.
    """

    def __init__(
        self,
        store: SpillStore,
        layout: Layout,
        streams: int,
        sources: Sequence[Source],
        sweep: Sweep | None,
        table: MergeTable,
        page_memory: int,
        window: Window = ALWAYS,
        *,
        ending: bool = False,
    ) -> None:
        self.runs = [Run(store) for _ in range(streams)]
        self.tuples_swept = 0
        self._store = store
        self._layout = layout
        self._streams = streams
        self._sweep = sweep
        self._table = table
        self._window = window
        self._ending = ending
        self._merge = RunMerge(store, layout, sources, page_memory)
        self._filled = table.reading
        # Of each stream's new run, the first page of its directory that has an extent which is not closed.
        self._open: Int64Array = np.zeros(streams, np.int64)
        self._extents_open = 0
        self._over = False
        self._gone: list[Int64Array] = []

    @property
    def is_over(self) -> bool:
        """Whether all tuples are merged, and the runs written."""
        return self._over

    @property
    def tuples_unread(self) -> int:
        """Tuples that are still in the runs that are merged."""
        return self._merge.left

    @property
    def tuples_in_memory(self) -> int:
        """Tuples in the table."""
        return self._filled - self._table.reading

    def advance(self, most: int) -> tuple[Int64Array, Int64Array]:
        """Merge tuples: about so many, at least one.

        Returns:
            results, int64, shape (streams + 2, m): ids, start, end; and stream and id of unmatched tuples that were
            dropped, int64, shape (2, u).
        """
        found = [np.empty((self._streams + 2, 0), np.int64)]
        table = self._table.tuples
        while not self._over and most > 0:
            reached = self._merge.take(table, self._filled, min(self._filled + most, table.shape[1]))
            found += self._join(self._filled, reached)
            most -= reached - self._filled
            self._filled = reached
            if not self._merge.left:
                self._end()
            elif self._filled - self._table.reading >= _FULL * (table.shape[1] - self._table.reading):
                self._make_room()
        gone, self._gone = self._gone, []
        return np.concatenate(found, axis=1), np.concatenate([np.empty((2, 0), np.int64), *gone], axis=1)

    def pause(self) -> None:
        """Give the pages back; the table stays."""
        self._merge.pause()

    @property
    def page_bytes(self) -> int:
        """Memory of the pages in which runs are read; none while it is paused."""
        return self._merge.memory_used()

    @property
    def directory_bytes(self) -> int:
        """Memory of the directories of what it writes, and of a page of each but one while they are gone through."""
        page = Run.directory_page_bytes(self._store.page_bytes)
        return sum(run.memory_used() for run in self.runs) + (self._streams - 1) * page

    def _join(self, new: int, until: int) -> list[Int64Array]:
        """Results of the tuples that have just come, with each other and with all that is kept."""
        if self._sweep is None or new == until:
            return []
        self.tuples_swept += until - new
        taking = np.ones(self._streams, bool)
        found = [
            self._sweep.join(self._table.tuples, Columns(0, self._table.reading, new, until), taking, self._window)
        ]
        if self._extents_open:
            self._join_with_disk(0, 0, taking, (new, until), found)
        return found

    def _join_with_disk(
        self, stream: int, read: int, taking: NDArray[np.bool_], new: tuple[int, int], found: list[Int64Array]
    ) -> None:
        """From this stream on: let it take part from memory, then with each extent of it that is kept.

        Args:
            stream: the first of those that are open.
            read: columns at the table's beginning that hold extents of the streams before.
            taking: which streams take part from memory.
            new: first column of the new tuples, and the one after the last.
            found: where results go.
        """
        assert self._sweep is not None
        table = self._table.tuples
        if stream == self._streams:
            if not taking.all():
                found.append(self._sweep.join(table, Columns(read, self._table.reading, *new), taking, self._window))
            return
        self._join_with_disk(stream + 1, read, taking, new, found)
        if stream == self._streams - 1 and not taking[:stream].any():
            return  # No new tuple would take part.
        taking[stream] = False
        run = self.runs[stream]
        for page in range(int(self._open[stream]), run.directory_pages):
            entries = run.directory(page).copy()
            before = entries.copy()
            for entry in entries.T:
                if entry[REACH] >= table[KEY, new[0]]:
                    after, marked = self._read_again(stream, entry, read)
                    if self._sweep.done(table[:, read:after], table[:, new[0] : new[0] + 1]).all():
                        self._close(entry)
                        continue
                    self._join_with_disk(stream + 1, after, taking, new, found)
                    self._write_again(entry, read, after, marked)
                else:
                    self._close(entry)
            if (entries != before).any():
                run.change_directory(page, entries)
            if page == self._open[stream] and page < run.directory_pages - 1 and (entries[REACH] == CLOSED).all():
                self._open[stream] += 1
        taking[stream] = True

    def _read_again(self, stream: int, entry: Int64Array, first: int) -> tuple[int, int]:
        """Read a written extent into the table: the column after it, and how many of its tuples are in a result."""
        layout, table = self._layout, self._table.tuples
        columns = self._store.read(int(entry[EXTENT]))
        after = first + columns.shape[1]
        table[: layout.columns, first:after] = columns
        table[layout.stream, first:after] = stream
        table[layout.group, first:after] = self._store.read(int(entry[GROUPS]))[0] if entry[GROUPS] >= 0 else -1
        return after, int(np.count_nonzero(columns[layout.id] < 0))

    def _write_again(self, entry: Int64Array, first: int, after: int, marked: int) -> None:
        """Write an extent of which more tuples than before are in a result."""
        tuples = self._table.tuples[: self._layout.columns, first:after]
        if np.count_nonzero(tuples[self._layout.id] < 0) > marked:
            self._store.remove(int(entry[EXTENT]))
            entry[EXTENT] = self._store.write(tuples)

    def _close(self, entry: Int64Array) -> None:
        """No tuple of an extent matches any that are to come."""
        if entry[REACH] != CLOSED:
            if entry[GROUPS] >= 0:
                self._store.remove(int(entry[GROUPS]))
            entry[REACH], entry[GROUPS] = CLOSED, -1
            self._extents_open -= 1

    def _close_all(self, stream: int) -> None:
        run = self.runs[stream]
        for page in range(int(self._open[stream]), run.directory_pages if self._extents_open else 0):
            entries = run.directory(page).copy()
            before = entries.copy()
            for entry in entries.T:
                self._close(entry)
            if (entries != before).any():
                run.change_directory(page, entries)

    def _make_room(self) -> None:
        """Write what is done, in whole pages; and all there is, where that does not help."""
        table, first = self._table.tuples, self._table.reading
        done = np.ones(self._filled - first, bool)
        if self._sweep is not None:
            done = self._sweep.done(table[:, first : self._filled], table[:, self._filled - 1 : self._filled])
        stays = ~self._leaving(done)
        for stream in range(self._streams):
            columns = first + np.flatnonzero((table[self._layout.stream, first : self._filled] == stream) & stays)
            # In the order of the run: up to the first that is not done.
            open_ = np.flatnonzero(~done[columns - first])
            ready = int(open_[0]) if len(open_) else len(columns)
            ready -= ready % self._layout.page_tuples(self._store.page_bytes)
            self._write(stream, columns[:ready])
            stays[columns[:ready] - first] = False
        if np.count_nonzero(stays) > _FULL / 2 * (table.shape[1] - first):
            for stream in range(self._streams):
                columns = first + np.flatnonzero((table[self._layout.stream, first : self._filled] == stream) & stays)
                self._write(stream, columns, keeping=True)
            stays[:] = False
        self._move_up(stays)

    def _end(self) -> None:
        """No tuple is left to come: write and drop the rest."""
        table, first = self._table.tuples, self._table.reading
        stays = ~self._leaving(np.ones(self._filled - first, bool))
        for stream in range(self._streams):
            columns = first + np.flatnonzero((table[self._layout.stream, first : self._filled] == stream) & stays)
            self._write(stream, columns)
            self._close_all(stream)
            if self._ending:
                for written in whole(self.runs[stream]):
                    self._tell(np.full(written.shape[1], stream), written[self._layout.id])
                self.runs[stream].remove()
        self._filled = first
        self._over = True
        self._merge.pause()

    def _leaving(self, done: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which tuples of the table are dropped: done here, and in no later result. Those in none at all are told."""
        held = self._table.tuples[:, self._table.reading : self._filled]
        leaving = done.copy()
        if not self._ending:
            leaving &= held[self._layout.end] <= self._window.until if self._is_dropping else False
        self._tell(held[self._layout.stream, leaving], held[self._layout.id, leaving])
        return leaving

    @property
    def _is_dropping(self) -> bool:
        return self._layout.validity and self._window.until != LAST_TIME

    def _tell(self, streams: Int64Array, ids: Int64Array) -> None:
        """Tell the unmatched ones of tuples that leave."""
        unmatched = ids >= 0
        if unmatched.any():
            self._gone.append(np.stack((streams[unmatched], ids[unmatched])))

    def _write(self, stream: int, columns: Int64Array, *, keeping: bool = False) -> None:
        """Write tuples to their run; what of it still matches is kept in mind."""
        layout, table = self._layout, self._table.tuples
        for begin in range(0, len(columns), self._table.extent_tuples):
            part = columns[begin : begin + self._table.extent_tuples]
            reach, groups = CLOSED, -1
            if keeping and self._sweep is not None:
                rows = table[:, part]
                if not self._sweep.done(rows, table[:, self._filled - 1 : self._filled]).all():
                    reach = max(CLOSED + 1, self._sweep.greatest_reach(rows))
                    if (rows[layout.group] >= 0).any():
                        groups = self._store.write(rows[layout.group : layout.group + 1])
                    self._extents_open += 1
            self.runs[stream].append(table[: layout.columns, part], reach, groups)

    def _move_up(self, stays: NDArray[np.bool_]) -> None:
        """Close the gaps that written tuples leave in the table."""
        table, first = self._table.tuples, self._table.reading
        kept = int(np.count_nonzero(stays))
        for row in table[: self._layout.link]:
            row[first : first + kept] = row[first : self._filled][stays]
        self._filled = first + kept
