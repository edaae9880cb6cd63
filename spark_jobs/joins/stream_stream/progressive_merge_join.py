"""Progressive merge join, PMJ: results while the streams are still being sorted (004 §3.2, §4.2).

    memory, full:   sort ; join ; write a run of each stream: group 2

    on disk:        group 0   group 1   group 2
                    a a a a   a a       a           a: run of stream 0
                    b b b b   b b       b           b: run of stream 1

    advance:        merge groups 1 and 2: read in one order, join, write     -> group 1'
                    results of tuples of one group were told when that was written: they are left out

Each merge joins all that takes part in it, so at the end, when one group is left, all results have been told. Tuples
have no validity here: what has come stays until `finish`, and the streams have to be finite.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spark_jobs.joins.stream_stream.base import Results
from spark_jobs.joins.stream_stream.merge_strategies import Span
from spark_jobs.joins.stream_stream.sort_based_join import SortBasedJoin, Told
from spark_jobs.joins.structures.sweep import ALWAYS, Window


class ProgressiveMergeJoin(SortBasedJoin):
    """Joins tuples when they are sorted in memory together, or else when they first meet in a merge.

    A merge goes on in steps of what its table holds. When the arrivals have to be sorted meanwhile it gives its pages
    back, and remembers where it was in each run.

    O(log of the number of groups) reads and writes of a tuple, by the fan-in (`theory.merge_join_model`).
    """

    name = "progressive_merge_join"

    def _sorted(self) -> Told:
        return Told(self._swept(ALWAYS), np.empty((2, 0), np.int64))

    def _window(self, span: Span, *, ending: bool) -> Window | None:
        return ALWAYS

    def _slice(self, window: Window | None) -> int:
        return self._table.tuples.shape[1]

    def _results(self, told: Sequence[Told]) -> Results:
        if not told:
            return self._none()
        ids = np.concatenate([part.results for part in told], axis=1)[: self.streams]
        return Results(ids, unmatched=np.concatenate([part.unmatched for part in told], axis=1))
