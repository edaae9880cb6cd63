"""Results that wait until no earlier one can come any more, and leave in the order of validity (004 §5.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.stream_stream.extent_queue import ExtentQueue
from spark_jobs.joins.stream_stream.spill import SpillStore
from spark_jobs.joins.stream_stream.validity_order import LAST
from spark_jobs.joins.structures.interval_order import interval_order

Int64Array = NDArray[np.int64]

# The first two rows of results here; the ids follow.
START, END = 0, 1
_MOST_RUNS = 16
_ENTRY = 4  # An extent, its results, the first of them that waits, and its start.


@dataclass
class _Run:
    """Results; where they are in order, the first of them may have left."""

    results: Int64Array
    ordered: bool = False
    taken: int = 0

    @property
    def waiting(self) -> Int64Array:
        return self.results[:, self.taken :]

    def is_due(self, bound: int) -> bool:
        """Whether one of them starts before. O(1) where they are in order."""
        starts = self.waiting[START]
        return bool(starts[0] < bound if self.ordered else (starts < bound).any())

    def take_before(self, bound: int) -> Int64Array:
        """Take out those that start before; they are in order."""
        taken = self.waiting[:, : np.searchsorted(self.waiting[START], bound)]
        self.taken += taken.shape[1]
        # What has left is freed when it is half of the run: a little at a time would copy all the rest.
        if 2 * self.taken >= self.results.shape[1]:
            self.results, self.taken = self.waiting.copy(), 0
        return taken


class ResultBuffer:
    """Runs of results, in memory as long as there is room.

    Those that leave soon are sorted then, and only once. The others wait in sorted runs. Runs of like size are merged,
    so that there are few and a result is sorted a logarithmic number of times.

    Args:
        spill: where runs go.
        columns: numbers of a result: start, end and ids.
        memory_bytes: what the runs may take, with what merging needs besides.
    """

    def __init__(self, spill: SpillStore, columns: int, memory_bytes: int) -> None:
        self._spill = spill
        self._columns = columns
        # Two runs, what they are merged to, and their order.
        self._most = max(1, memory_bytes // (4 * columns * 8))
        self._runs: list[_Run] = []
        self._on_disk = ExtentQueue(spill, _ENTRY)
        self._next_start = LAST  # The least of those on disk.

    @staticmethod
    def bytes_for(columns: int) -> int:
        """The least memory that it works in: a result, and the directory."""
        return 4 * columns * 8 + ExtentQueue.bytes_for(_ENTRY)

    def add(self, results: Int64Array) -> None:
        """Let results wait; int64, shape (columns, n), in any order. Amortised O(log waiting) each."""
        for first in range(0, results.shape[1], self._most):
            part = results[:, first : first + self._most]
            if part.shape[1] + self._held() > self._most:
                self._write()
            self._runs.append(_Run(np.ascontiguousarray(part)))
            if len(self._runs) > _MOST_RUNS:
                self._merge()

    def release(self, bound: int) -> Int64Array:
        """Take out all results that start before; int64, shape (columns, n), in order. They are the caller's now."""
        due = [run for run in self._runs if run.is_due(bound)]
        waiting = [run for run in self._runs if not run.is_due(bound)]
        unordered = [run.results for run in due if not run.ordered]
        if unordered:
            due = [run for run in due if run.ordered]
            due.append(_Run(in_order(np.hstack(unordered)), ordered=True))
        released = [run.take_before(bound) for run in due]
        self._runs = waiting + [run for run in due if run.waiting.shape[1]]
        # After those in memory: what follows on the pages read takes their place.
        if self._next_start < bound:
            released += self._from_disk(bound)
        if not released:
            return np.empty((self._columns, 0), np.int64)
        return in_order(np.hstack(released)) if len(released) > 1 else released[0]

    def memory_used(self) -> int:
        """Bytes of runs and directory. O(runs)."""
        return self._held() * self._columns * 8 + self._on_disk.memory_used()

    def _held(self) -> int:
        return sum(run.results.shape[1] for run in self._runs)

    def _merge(self) -> None:
        """Make one of the newest runs, and of older ones as long as they are not much longer."""
        position, count = len(self._runs), 0
        while position and self._runs[position - 1].results.shape[1] <= max(2 * count, self._runs[-1].results.shape[1]):
            position -= 1
            count += self._runs[position].results.shape[1]
        merged = in_order(np.hstack([run.waiting for run in self._runs[position:]]))
        self._runs[position:] = [_Run(merged, ordered=True)]

    def _write(self) -> None:
        if self._runs:
            run = in_order(np.hstack([run.waiting for run in self._runs]))
            self._runs = []
            self._put_back(self._spill.write(run), run.shape[1], 0, int(run[START, 0]))

    def _put_back(self, extent: int, count: int, first: int, start: int) -> None:
        self._on_disk.push(extent, count, first, start)
        self._next_start = min(self._next_start, start)

    def _from_disk(self, bound: int) -> list[Int64Array]:
        """Read each run on as far as it starts before, page by page; what else is on its page waits in memory."""
        released = []
        at_once = max(1, self._spill.page_bytes // (self._columns * 8))
        self._next_start = LAST
        for _ in range(len(self._on_disk)):
            extent, count, first, start = self._on_disk.pop()
            while first < count and start < bound:
                part = self._spill.read(extent, first, min(at_once, count - first))
                first += part.shape[1]
                passed = int(np.searchsorted(part[START], bound))
                released.append(part[:, :passed])
                self.add(part[:, passed:])
                start = int(part[START, -1])  # What follows starts no earlier.
            if first < count:
                self._put_back(extent, count, first, start)
            else:
                self._spill.remove(extent)
        return released


def in_order(results: Int64Array) -> Int64Array:
    """Results by start and end; int64, shape (columns, n); these themselves if they are in order. O(n log runs)."""
    order = interval_order(results[START], results[END])
    return results if order is None else results.take(order, axis=1)
