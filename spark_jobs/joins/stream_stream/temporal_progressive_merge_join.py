"""Temporal progressive merge join, TPMJ: a sort-based join within windows larger than memory, in order (004 §5.3, §6).

    groups on disk, oldest first:       0           1        2        3
                                        |___________|________|        |       merged at the left flank: results
                                                 |                    |       that begin in [s, e), in order
                                                 0'                   1

    e = the least, over the streams, of the greatest start that takes part: no tuple to come begins before it.
    s = the e before. Tuples that end up to e are dropped when a run is written: the flank is as long as the window.

Results are made at the left flank of the merge tree only, so each once, and all in order of validity. Elsewhere the
runs of one stream after the other are merged, without a join, and more of them at once. Since the flank grows thinner
as it is written, it is merged again with runs of its own length: the merge tree is crooked (004 Fig. 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spark_jobs.joins.stream_stream.base import Int64Array, Results, Tuples
from spark_jobs.joins.stream_stream.merge_strategies import Span
from spark_jobs.joins.stream_stream.sort_based_join import SortBasedJoin, Told
from spark_jobs.joins.stream_stream.validity_order import ValidityOrder
from spark_jobs.joins.structures.sweep import FIRST_TIME, LAST_TIME, Window


class TemporalProgressiveMergeJoin(SortBasedJoin):
    """Joins tuples that are valid at a common time, in order of (start, end) of the results.

    A merge at the flank is one step, so that its results can be put in order; elsewhere a step is what the table holds.
    A stream that brings nothing keeps the results of all others back, unless `reach` tells that it has nothing as
    early: a tuple of it may still begin as early as its last one.

    Each tuple is read and written about as often as its window is long, in times that memory fills, over one less than
    the fan-in (`theory.merge_join_model`).
    """

    name = "temporal_progressive_merge_join"
    needs_validity = True

    def __init__(self, streams: int, *arguments: Any, **policies: Any) -> None:
        super().__init__(streams, *arguments, **policies)
        self._order = ValidityOrder(streams)
        # Of each stream, what starts before has been written.
        self._written: Int64Array = np.full(streams, FIRST_TIME)
        # Of each stream, what starts before will not come: as `reach` told.
        self._reached: Int64Array = np.full(streams, FIRST_TIME)
        self._told_until = FIRST_TIME

    def _arrive(self, stream: int, tuples: Tuples) -> Results:
        kept = self._order.take(stream, tuples)
        results = super()._arrive(stream, tuples if kept is None else tuples.part(kept))
        if kept is None:
            return results
        return Results(results.ids, results.starts, results.ends, results.unmatched, tuples.ids[~kept])

    def _reach(self, stream: int, start: int) -> Results:
        """Counts when arrivals are written next."""
        self._order.reach(stream, start)
        self._reached[stream] = max(self._reached[stream], start)
        return self._none()

    def _until(self) -> int:
        held = self._arrivals.tuples[:, : self._arrivals.count]
        np.maximum.at(self._written, held[self._layout.stream], held[self._layout.start])
        return int(np.maximum(self._written, self._reached).min())

    def _sorted(self) -> Told:
        return Told(np.empty((self.streams + 2, 0), np.int64), np.empty((2, 0), np.int64))

    def _window(self, span: Span, *, ending: bool) -> Window | None:
        if span.first:
            return None
        until = LAST_TIME if ending else self._groups[span.many - 1].until
        return Window(self._told_until, max(self._told_until, until))

    def _slice(self, window: Window | None) -> int:
        return self._table.tuples.shape[1] if window is None else LAST_TIME

    def _end_merge(self) -> None:
        assert self._merging is not None
        window = self._window(self._merging.span, ending=self._merging.ending)
        super()._end_merge()
        if window is not None:
            self._told_until = window.until

    def _results(self, told: Sequence[Told]) -> Results:
        if not told:
            return self._none()
        *ids, starts, ends = np.concatenate([part.results for part in told], axis=1)
        order = np.lexsort((ends, starts))
        unmatched = np.concatenate([part.unmatched for part in told], axis=1)
        return Results(np.array(ids)[:, order], starts[order], ends[order], unmatched)
