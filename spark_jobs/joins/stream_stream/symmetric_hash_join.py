"""Symmetric hash join: a hash table for each stream, all of it in memory; the baseline of the family.

stream 0 --+
           |- table 0 -- results of 0, 1 --+
stream 1 --+                               |- table 1 -- results of 0, 1, 2
stream 2 ----------------------------------+
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.joins.memory_budget import tuples_within
from spark_jobs.joins.stream_stream.base import Int64Array, Results, StreamStreamJoin, Tuples, of_stream
from spark_jobs.joins.stream_stream.predicates import Predicate, expect_equality
from spark_jobs.joins.structures.hashed_streams import KEY, Found, HashedStreams

_LEFT, _RIGHT = 0, 1
# Tuples that are looked at together at the end.
_PIECE = 4096


class _Coming(NamedTuple):
    """Tuples that are to go into a table."""

    level: int
    side: int
    keys: Int64Array
    ids: Int64Array  # Shape (k, n): those of the k streams whose tuples each is made of.


class SymmetricHashJoin(StreamStreamJoin):
    """Joins each tuple with those that came before it; more than two streams through a pipeline of binary joins.

    The pipeline keeps its intermediate results (Wilschut and Apers 1993; 002 §1, Fig. 1 (a)): that is what MJoin does
    without. There is no disk: what does not fit is refused, nothing of it taken.

    O(1) a tuple and table, and O(1) a result, final or intermediate.

    Args:
        streams: how many.
        predicate: equality.
        memory_bytes: the budget, shared by the tables alike.

    Raises:
        MemoryBudgetError: the budget holds no tuple.
        ValueError: the predicate is another one.
    """

    def __init__(self, streams: int, predicate: Predicate, memory_bytes: int) -> None:
        super().__init__(streams, predicate)
        expect_equality("symmetric_hash_join", predicate)
        self._memory = memory_bytes
        levels = streams - 1

        def bytes_for(capacity: int) -> int:
            tables = levels * HashedStreams.bytes_for(capacity, 2)
            return tables + sum(level + 1 for level in range(1, levels)) * capacity * 8

        capacity = tuples_within(memory_bytes, 0, bytes_for, algorithm="symmetric_hash_join", fixed="the tables")
        self._tables = [HashedStreams(capacity, 2, growing=True) for _ in range(levels)]
        # A left tuple of a later table is an intermediate result. Its id there is its row here, where the ids are.
        self._parts = [np.zeros((level + 1, capacity), np.int64) for level in range(1, levels)]
        self._arrivals = 0

    @property
    def is_work(self) -> bool:
        """Never: all is done when a tuple arrives."""
        return False

    def memory_used(self) -> int:
        """Bytes of the tables."""
        return sum(table.memory_used() for table in self._tables) + sum(parts.nbytes for parts in self._parts)

    def tuples_in_memory(self) -> int:
        """Tuples and intermediate results."""
        return sum(len(table) for table in self._tables)

    def tuples_on_disk(self) -> int:
        """None."""
        return 0

    def check(self) -> None:
        """Assert that the tables are sound and within the budget. O(memory)."""
        assert self.memory_used() <= self._memory
        for table in self._tables:
            table.check()

    def _arrive(self, stream: int, tuples: Tuples) -> Results:
        level, side = _place_of(stream)
        coming = _Coming(level, side, tuples.keys, tuples.ids[np.newaxis])
        taken = [coming]
        while coming.level < len(self._tables) - 1:
            coming = self._joined(coming, self._tables[coming.level].probe(1 - coming.side, coming.keys))
            taken.append(coming)
        for part in taken:
            if len(part.keys) > self._tables[part.level].room:
                raise MemoryBudgetError(
                    f"symmetric_hash_join has room for {self._tables[part.level].room:,} tuples more in table "
                    f"{part.level}, but {len(part.keys):,} came: give it more than {self._memory:,} bytes, or take an "
                    "algorithm that has a disk"
                )
            self.statistics.probes += len(part.keys)
        for part in taken[:-1]:
            self._tables[part.level].insert(part.side, part.keys, *self._rows_and_arrivals(part))
        found = self._tables[-1].meet(coming.side, coming.keys, *self._rows_and_arrivals(coming))
        return Results(self._joined(coming, found).ids)

    def _joined(self, coming: _Coming, found: Found) -> _Coming:
        """What tuples make of what their table has found on its other side: left tuples of the next table."""
        level, side, keys, ids = coming
        if side == _LEFT:
            joined = np.vstack((ids[:, found.rows], found.ids))
        else:
            left = self._parts[level - 1][:, found.ids] if level else found.ids
            joined = np.vstack((left, ids[:, found.rows]))
        return _Coming(level + 1, _LEFT, keys[found.rows], joined)

    def _rows_and_arrivals(self, coming: _Coming) -> tuple[Int64Array, Int64Array]:
        """What stands for the ids of tuples that go into a table, and when they came."""
        level, side, keys, ids = coming
        rows = ids[0]
        if level and side == _LEFT:
            first = int(self._tables[level].counts[_LEFT].sum())
            rows = np.arange(first, first + len(keys))
            self._parts[level - 1][:, rows] = ids
        arrivals = np.arange(self._arrivals, self._arrivals + len(keys))
        self._arrivals += len(keys)
        return rows, arrivals

    def _step(self) -> Results:
        return self._none()

    def _finish(self) -> Iterator[Results]:
        """The tuples whose key one of the other streams has not."""
        nothing = self._none()
        for stream in range(self.streams):
            level, side = _place_of(stream)
            for held in self._tables[level].pieces(side, 0, _PIECE):
                missed = np.zeros(held.shape[1], bool)
                for other in range(self.streams):
                    if other != stream:
                        other_level, other_side = _place_of(other)
                        missed |= ~self._tables[other_level].contains(other_side, held[KEY])
                if missed.any():
                    ids = self._tables[level].probe(side, held[KEY, missed]).ids
                    yield Results(nothing.ids, unmatched=of_stream(stream, ids))


def _place_of(stream: int) -> tuple[int, int]:
    """The table of a stream's own tuples, and the side of it."""
    return (0, _LEFT) if stream == 0 else (stream - 1, _RIGHT)
