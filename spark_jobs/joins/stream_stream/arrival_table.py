"""Tuples of all streams as they come, until they are sorted and written: where the runs of sort-based joins begin."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.memory_budget import most_within
from spark_jobs.joins.stream_stream.base import Tuples
from spark_jobs.joins.stream_stream.spill import SpillStore
from spark_jobs.joins.structures.sorted_runs import KEY, Layout, Run, order_of

Int64Array = NDArray[np.int64]
_VALUE_BYTES = 8
# Values a tuple while a table is sorted: the order, a column in that order, and the sort's own.
_SORT_VALUES = 3
_MOST_TUPLES = 2**31 - 2


class ArrivalTable:
    """A list of tuples for each stream, in one table (004 §4.2).

    Sorting it and writing it take space of their own; between, that can be lent: `scratch_bytes`.

    Args:
        layout: of the tuples.
        page_bytes: of the spill store.
        memory_bytes: its budget, that space included.
        scratch_bytes: the least such space.

    Attributes:
        tuples: int64, shape (layout.table_rows, capacity).
        count: how many of the columns are in use.
        scratch_bytes: the space.
    """

    def __init__(self, layout: Layout, page_bytes: int, memory_bytes: int, scratch_bytes: int) -> None:
        self._layout = layout
        self._page = layout.page_tuples(page_bytes)

        def scratch(capacity: int) -> int:
            writing = capacity * _VALUE_BYTES + self._page * layout.tuple_bytes
            return max(scratch_bytes, writing, capacity * _SORT_VALUES * _VALUE_BYTES)

        capacity = most_within(memory_bytes, lambda n: n * layout.table_bytes + scratch(n), _MOST_TUPLES)
        self.scratch_bytes = scratch(capacity)
        self.tuples: Int64Array = np.empty((layout.table_rows, capacity), np.int64)
        self.count = 0

    @staticmethod
    def least_bytes(layout: Layout, page_bytes: int, scratch_bytes: int) -> int:
        """The smallest budget: a page of tuples."""
        page = layout.page_tuples(page_bytes)
        writing = page * (_VALUE_BYTES + layout.tuple_bytes)
        return page * layout.table_bytes + max(scratch_bytes, writing, page * _SORT_VALUES * _VALUE_BYTES)

    @property
    def capacity(self) -> int:
        """How many tuples it holds."""
        return self.tuples.shape[1]

    def add(self, stream: int, tuples: Tuples) -> int:
        """Take tuples from the first on, as many as there is room for; how many that is. O(n)."""
        taken = min(len(tuples.ids), self.capacity - self.count)
        into = slice(self.count, self.count + taken)
        columns = (tuples.keys, tuples.highs, tuples.starts, tuples.ends, tuples.ids)
        for row, column in enumerate([column for column in columns if column is not None]):
            self.tuples[row, into] = column[:taken]
        self.tuples[self._layout.stream, into] = stream
        self.tuples[self._layout.group, into] = -1
        self.count += taken
        return taken

    def sort(self) -> None:
        """Put the tuples in order, in place. O(n log n)."""
        held = self.tuples[: self._layout.link, : self.count]
        order = order_of(held[KEY], held[self._layout.high] if self._layout.interval else None)
        for row in held:
            row[:] = row[order]

    def write(self, store: SpillStore, streams: int) -> list[Run]:
        """Write the sorted tuples, a run for each stream, and forget them."""
        runs = [Run(store) for _ in range(streams)]
        most = (self.scratch_bytes - self.capacity * _VALUE_BYTES) // self._layout.tuple_bytes
        most = max(self._page, most - most % self._page)
        for stream, run in enumerate(runs):
            columns = np.flatnonzero(self.tuples[self._layout.stream, : self.count] == stream)
            for begin in range(0, len(columns), most):
                run.append(self.tuples[: self._layout.columns, columns[begin : begin + most]])
        self.count = 0
        return runs

    def memory_used(self) -> int:
        """Bytes of the table and of the space for sorting."""
        return self.tuples.nbytes + self.scratch_bytes
