"""The sweep of sort-based joins, by predicate: a kernel where a reach describes it, numpy for one of the user's."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.stream_stream.predicates import Band, Equality, Overlap, Predicate, Values
from spark_jobs.joins.structures.sorted_runs import KEY, Layout
from spark_jobs.joins.structures.sweep import LAST_TIME, Columns, Reach, Window, reaches, sweep

Int64Array = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Sweep(Protocol):
    """Joins tuples of several streams in order, and tells which of them are done."""

    def join(self, table: Int64Array, columns: Columns, taking: Flags, window: Window) -> Int64Array:
        """Results with at least one new tuple, as `structures.sweep.sweep` tells them."""

    def done(self, table: Int64Array, reached: Int64Array) -> Flags:
        """Which tuples of a table match none from `reached` on in the order; that is one tuple, shape (rows, 1)."""

    def greatest_reach(self, table: Int64Array) -> int:
        """The last key at which any of these tuples still matches; the last integer where that is not known."""


def sweep_for(predicate: Predicate, layout: Layout) -> Sweep:
    """The sweep that joins by a predicate."""
    if isinstance(predicate, Equality):
        return ReachSweep(layout, Reach(KEY, 0))
    if isinstance(predicate, Overlap):
        return ReachSweep(layout, Reach(layout.high, -1))
    if isinstance(predicate, Band):
        return ReachSweep(layout, Reach(KEY, predicate.width))
    return PredicateSweep(layout, predicate)


class ReachSweep:
    """By the kernel.

    Args:
        layout: of the tables.
        reach: how far a tuple matches.
    """

    def __init__(self, layout: Layout, reach: Reach) -> None:
        self._layout = layout
        self._reach = reach

    def join(self, table: Int64Array, columns: Columns, taking: Flags, window: Window) -> Int64Array:
        """Results with at least one new tuple. O(tuples + results), as `structures.sweep.sweep` tells."""
        return sweep(table, self._layout, self._reach, columns, taking, window)

    def done(self, table: Int64Array, reached: Int64Array) -> Flags:
        """Which tuples don't reach the key. O(n)."""
        return reaches(table, self._reach) < reached[KEY]

    def greatest_reach(self, table: Int64Array) -> int:
        """The greatest reach. O(n)."""
        return int(reaches(table, self._reach).max())


class PredicateSweep:
    """By a predicate's own conditions, tuple by tuple in numpy: tens of microseconds each.

    Args:
        layout: of the tables.
        predicate: P_join and P_rm.
    """

    def __init__(self, layout: Layout, predicate: Predicate) -> None:
        self._layout = layout
        self._predicate = predicate

    def join(self, table: Int64Array, columns: Columns, taking: Flags, window: Window) -> Int64Array:
        """Results with at least one new tuple. O(new tuples x kept tuples + results)."""
        streams = len(taking)
        of, id_ = table[self._layout.stream], self._layout.id
        held = [np.flatnonzero(of[: columns.read_until] == stream) for stream in range(streams)]
        for stream in np.flatnonzero(taking).tolist():
            held[stream] = columns.kept + np.flatnonzero(of[columns.kept : columns.new] == stream)
        found = [np.empty((streams + 2, 0), np.int64)]
        for column in range(columns.new, columns.until):
            stream = int(of[column])
            if not taking[stream]:
                continue
            reached = self._values(table, np.array([column]))
            partners = []
            for other in range(streams):
                removed = self._predicate.removes(reached, self._values(table, held[other]))
                held[other] = held[other][~np.broadcast_to(removed, held[other].shape)]
                if other != stream:
                    partners.append(held[other][self._matching(table, column, held[other])])
            for chosen in self._chosen(table, partners):
                found.append(self._told(table, stream, column, chosen, window))
            held[stream] = np.append(held[stream], column)
        results = np.concatenate(found, axis=1)
        ids = table[id_, results[:streams]]
        table[id_, results[:streams]] = np.minimum(ids, ~ids)
        results[:streams] = np.maximum(ids, ~ids)
        return results

    def done(self, table: Int64Array, reached: Int64Array) -> Flags:
        """Which tuples P_rm removes. O(n)."""
        kept = self._values(table, np.arange(table.shape[1]))
        removed = self._predicate.removes(self._values(reached, np.zeros(1, np.int64)), kept)
        return np.broadcast_to(removed, (table.shape[1],))

    def greatest_reach(self, table: Int64Array) -> int:
        """Not known."""
        return LAST_TIME

    def _values(self, table: Int64Array, columns: Int64Array) -> Values:
        return Values(table[KEY, columns], table[self._layout.high, columns] if self._layout.interval else None)

    def _matching(self, table: Int64Array, column: int, places: Int64Array) -> Flags:
        """Which tuples match one."""
        matching = self._predicate.joins(self._values(table, np.array([column])), self._values(table, places))
        return np.broadcast_to(matching, places.shape)

    def _chosen(self, table: Int64Array, partners: list[Int64Array]) -> list[Int64Array]:
        """A tuple of each stream, every two of which match: columns of the table, shape (streams - 1, m) each time."""
        if len(partners) == 1:
            return [partners[0][np.newaxis]]
        chosen = []
        for place in partners[0].tolist():
            rest = [places[self._matching(table, place, places)] for places in partners[1:]]
            for others in self._chosen(table, rest):
                chosen.append(np.vstack((np.full(others.shape[1], place), others)))
        return chosen

    def _told(self, table: Int64Array, stream: int, column: int, chosen: Int64Array, window: Window) -> Int64Array:
        """Those of the matching tuples that are valid at a time, and not known: columns, start and end."""
        together = np.insert(chosen, stream, column, axis=0)
        groups = table[self._layout.group, together]
        tells = (groups != groups[0]).any(axis=0) | (groups[0] < 0)
        begins, ends = np.zeros((2, together.shape[1]), np.int64)
        if self._layout.validity:
            begins, ends = (
                table[self._layout.start, together].max(axis=0),
                table[self._layout.end, together].min(axis=0),
            )
            tells &= (begins < ends) & (begins >= window.start) & (begins < window.until)
        return np.vstack((together, begins, ends))[:, tells]
