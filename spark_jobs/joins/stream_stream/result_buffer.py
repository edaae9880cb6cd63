"""Results that wait until no earlier one can come any more, and leave in the order of validity (004 §5.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.stream_stream.extent_queue import ExtentQueue
from spark_jobs.joins.stream_stream.spill import SpillStore
from spark_jobs.joins.stream_stream.validity_order import LAST, by_validity

Int64Array = NDArray[np.int64]

# The first two rows of results here; the ids follow.
START, END = 0, 1
_ENTRY = 3  # An extent, its first result that waits, and the start of that.


@dataclass
class _Run:
    """Results in order, the first of which may have left."""

    results: Int64Array
    taken: int = 0

    @property
    def waiting(self) -> Int64Array:
        return self.results[:, self.taken :]


class ResultBuffer:
    """Sorted runs, in memory as long as there is room.

    Runs of like size are merged, so that there are few and a result is sorted a logarithmic number of times.

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
            run = _sorted(part)
            while self._runs and 2 * run.shape[1] >= self._runs[-1].waiting.shape[1]:
                run = _sorted(np.hstack((self._runs.pop().waiting, run)))
            self._runs.append(_Run(run))

    def release(self, bound: int) -> Int64Array:
        """Take out all results that start before; int64, shape (columns, n), in order. They are the caller's now."""
        released = self._from_disk(bound) if self._next_start < bound else []
        for run in self._runs:
            count = int(np.searchsorted(run.waiting[START], bound))
            if count:
                released.append(run.waiting[:, :count])
                run.taken += count
                # What has left is freed when it is half of the run: a little at a time would copy all the rest.
                if 2 * run.taken >= run.results.shape[1]:
                    run.results, run.taken = run.waiting.copy(), 0
        self._runs = [run for run in self._runs if run.waiting.shape[1]]
        return _sorted(np.hstack(released)) if released else np.empty((self._columns, 0), np.int64)

    def memory_used(self) -> int:
        """Bytes of runs and directory. O(runs)."""
        return self._held() * self._columns * 8 + self._on_disk.memory_used()

    def state(self, name: str) -> dict[str, Int64Array]:
        """What is in memory."""
        waiting = [run.waiting for run in self._runs]
        runs = np.hstack([np.empty((self._columns, 0), np.int64), *waiting])
        sizes = np.array([self._next_start, *(run.shape[1] for run in waiting)])
        return {f"{name}.runs": runs, f"{name}.sizes": sizes, **self._on_disk.state(f"{name}.extents")}

    def load(self, state: Mapping[str, NDArray[Any]], name: str) -> None:
        """The reverse of `state`."""
        self._next_start, *sizes = state[f"{name}.sizes"].tolist()
        runs = np.split(state[f"{name}.runs"], np.cumsum(sizes), axis=1)
        self._runs = [_Run(run.copy()) for run in runs[: len(sizes)]]
        self._on_disk.load(state, f"{name}.extents")

    def _held(self) -> int:
        return sum(run.results.shape[1] for run in self._runs)

    def _write(self) -> None:
        if self._runs:
            run = _sorted(np.hstack([run.waiting for run in self._runs]))
            self._runs = []
            self._put_back(self._spill.write(run), 0, int(run[START, 0]))

    def _put_back(self, extent: int, first: int, start: int) -> None:
        self._on_disk.push(extent, first, start)
        self._next_start = min(self._next_start, start)

    def _from_disk(self, bound: int) -> list[Int64Array]:
        """Read each run on as far as it starts before, page by page; what else is on its page waits in memory."""
        released = []
        at_once = max(1, self._spill.page_bytes // (self._columns * 8))
        self._next_start = LAST
        for _ in range(len(self._on_disk)):
            extent, first, start = self._on_disk.pop()
            if start >= bound:
                self._put_back(extent, first, start)
                continue
            while True:
                part = self._spill.read(extent, first, at_once)
                first += part.shape[1]
                count = int(np.searchsorted(part[START], bound))
                released.append(part[:, :count])
                if count < part.shape[1] or part.shape[1] < at_once:
                    break
            rest = part[:, count:]
            if part.shape[1] < at_once:
                self._spill.remove(extent)
            else:
                # What follows starts at the earliest where this page ends.
                self._put_back(extent, first, int(part[START, -1]))
            self.add(rest)
        return released


def _sorted(results: Int64Array) -> Int64Array:
    order = by_validity(results[START], results[END])
    return results.copy() if order is None else results[:, order]
