r"""What progressive merge joins have in common: arrivals become groups of runs, groups are merged, at last into none.

    arrivals --sort--> group 4   group 3   group 2   group 1   group 0        a group: a run of each stream
                          \________\___________/
                                merge: one group

Memory is parted among the arrivals (with the space to sort them, which a merge has for its pages while nothing is
sorted), the table in which merges work, and the runs' directories.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np

from spark_jobs.errors import MemoryBudgetError
from spark_jobs.joins.stream_stream.arrival_table import ArrivalTable
from spark_jobs.joins.stream_stream.base import Int64Array, Results, StreamStreamJoin, Tuples
from spark_jobs.joins.stream_stream.merge_strategies import Greedy, MergeStrategy, Span, Waiting, last_span, level_of
from spark_jobs.joins.stream_stream.multiple_merge import MergeTable, MultipleMerge
from spark_jobs.joins.stream_stream.predicates import Predicate
from spark_jobs.joins.stream_stream.spill import SpillStore
from spark_jobs.joins.stream_stream.sweeps import sweep_for
from spark_jobs.joins.structures.sorted_runs import Layout, Run, RunMerge, Source
from spark_jobs.joins.structures.sweep import ALWAYS, FIRST_TIME, Columns, Window

_FEWEST_GROUPS = 2
_MOST_RUNS = 64
# Parts of the memory.
_DIRECTORY_PART = 8
_TABLE_SHARE = 3 / 7
# Full directories that memory has room for, at least: those of the runs merged, of what comes of them, and one more.
_FEWEST_DIRECTORIES = _FEWEST_GROUPS + 4


class Told(NamedTuple):
    """What a merge, or a sort, has settled: results as `sweep` tells them, and stream and id of unmatched tuples."""

    results: Int64Array
    unmatched: Int64Array


@dataclass
class Group:
    """Runs that were written together, one for each stream.

    Attributes:
        runs: of each stream.
        until: before which all tuples of every stream are in this group and those before it.
    """

    runs: list[Run]
    until: int = FIRST_TIME

    @property
    def tuples(self) -> int:
        """How many tuples of all streams it has."""
        return sum(run.count for run in self.runs)


@dataclass
class _Merging:
    """A merge that is under way.

    Attributes:
        span: the groups that it merges.
        ending: whether nothing is to be left of them.
        stream: the stream whose runs are merged just now; -1 where those of all are at once.
        merge: of these.
        done: merged runs of the streams before.
    """

    span: Span
    ending: bool
    stream: int
    merge: MultipleMerge
    done: list[Run]


class SortBasedJoin(StreamStreamJoin):
    """Keeps what has come in groups of sorted runs, and merges them.

    Args:
        streams: how many.
        predicate: any; one of the user's is evaluated in numpy.
        memory_bytes: the budget.
        spill: where runs go.
        strategy: which groups are merged when `advance` is called.
        fan_in: how many runs are read at once, shared by the streams; None for as many as have a page in memory, up
            to 64.

    Raises:
        MemoryBudgetError: there is no room for two groups' pages, or for a page of tuples of each stream.
    """

    name: str
    """In the catalogue."""

    def __init__(
        self,
        streams: int,
        predicate: Predicate,
        memory_bytes: int,
        spill: SpillStore,
        *,
        strategy: MergeStrategy | None = None,
        fan_in: int | None = None,
    ) -> None:
        super().__init__(streams, predicate)
        self._memory = memory_bytes
        self._spill = spill
        self._strategy = Greedy() if strategy is None else strategy
        self._layout = layout = Layout(predicate.interval, self.needs_validity)
        self._sweep = sweep_for(predicate, layout)
        page = spill.page_bytes
        pages = RunMerge.bytes_for(layout, page, _FEWEST_GROUPS * streams)
        least_arrivals = ArrivalTable.least_bytes(layout, page, pages)
        least_table = MergeTable.least_bytes(layout, streams, page)
        least_directories = _FEWEST_DIRECTORIES * streams * Run.directory_page_bytes(page)
        self._directory_bytes = max(least_directories, memory_bytes // _DIRECTORY_PART)
        rest = memory_bytes - self._directory_bytes
        table_bytes = max(least_table, int(rest * _TABLE_SHARE))
        if rest - table_bytes < least_arrivals:
            needed = max(least_table + least_arrivals, ceil(least_arrivals / (1 - _TABLE_SHARE)) + 1)
            needed = max(needed + least_directories, needed * _DIRECTORY_PART // (_DIRECTORY_PART - 1) + 1)
            raise MemoryBudgetError(
                f"{self.name} of {streams} streams was given {memory_bytes:,} bytes, but with pages of "
                f"{page:,} bytes it needs {needed:,}: give it more memory, or make the pages smaller"
            )
        self._arrivals = ArrivalTable(layout, page, rest - table_bytes, pages)
        self._table = MergeTable(layout, streams, page, table_bytes)
        most = self._arrivals.scratch_bytes // RunMerge.bytes_for(layout, page, 1)
        self._runs_at_once = min(_MOST_RUNS, most) if fan_in is None else min(fan_in, most)
        self._fan_in = max(_FEWEST_GROUPS, self._runs_at_once // streams)
        self._groups: list[Group] = []
        self._merging: _Merging | None = None

    @property
    def memory_tuples(self) -> int:
        """How many tuples are sorted and written at once."""
        return self._arrivals.capacity

    @property
    def fan_in(self) -> int:
        """How many groups are merged and joined at once, at most."""
        return self._fan_in

    @property
    def merging(self) -> MultipleMerge | None:
        """The merge that is under way."""
        return None if self._merging is None else self._merging.merge

    @property
    def is_work(self) -> bool:
        """Whether a merge is under way, or the strategy would begin one."""
        return self._merging is not None or self._chosen() is not None

    def memory_used(self) -> int:
        """Bytes of arrivals, merge table, and directories; pages lie in the space for sorting."""
        return self._arrivals.memory_used() + self._table.memory_used() + self._directories_used()

    def tuples_in_memory(self) -> int:
        """Arrivals, and what a merge has in its table."""
        return self._arrivals.count + (0 if self._merging is None else self._merging.merge.tuples_in_memory)

    def tuples_on_disk(self) -> int:
        """What runs hold; of those being merged what has not been read yet, and what has been written. O(groups)."""
        count = sum(group.tuples for group in self._groups)
        if self._merging is not None:
            first, many = self._merging.span
            merged = sum(group.tuples for group in self._groups[first : first + many])
            unread = self._merging.merge.tuples_unread
            if self._merging.stream >= 0:
                for group in self._groups[first : first + many]:
                    unread += sum(run.count for run in group.runs[self._merging.stream + 1 :])
            written = sum(run.count for run in [*self._merging.done, *self._merging.merge.runs])
            count += unread + written - merged
        return count

    def check(self) -> None:
        """Assert that memory is kept, that runs are in order, and that a merge has no page too many. O(data)."""
        assert self.memory_used() <= self._memory
        assert 0 <= self._arrivals.count <= self._arrivals.capacity
        if self._merging is not None:
            assert self._merging.merge.page_bytes <= self._arrivals.scratch_bytes
        for group in self._groups:
            for run in group.runs:
                run.check(self._layout)

    @abstractmethod
    def _sorted(self) -> Told:
        """Join the arrivals, which are in order and about to be written, as far as results are told then."""

    @abstractmethod
    def _window(self, span: Span, *, ending: bool) -> Window | None:
        """The results that a merge of these groups tells; None where it joins nothing."""

    @abstractmethod
    def _slice(self, window: Window | None) -> int:
        """About how many tuples one step merges."""

    @abstractmethod
    def _results(self, told: Sequence[Told]) -> Results:
        """Results as they are handed out."""

    def _until(self) -> int:
        """Before which all tuples of every stream have come."""
        return FIRST_TIME

    def _arrive(self, stream: int, tuples: Tuples) -> Results:
        told = []
        rest = tuples
        while len(rest.ids):
            rest = rest.part(slice(self._arrivals.add(stream, rest), None))
            if self._arrivals.count == self._arrivals.capacity:
                told += self._write_arrivals()
        return self._results(told)

    def _write_arrivals(self) -> list[Told]:
        """Sort and write the arrivals as a group; merge others, as long as the directories are too large."""
        if self._merging is not None:
            self._merging.merge.pause()  # The arrivals are sorted where its pages were.
        self._arrivals.sort()
        told = [self._sorted()]
        until = self._until()
        self.statistics.flushed += self._arrivals.count
        self._groups.append(Group(self._arrivals.write(self._spill, self.streams), until))
        while self._directories_used() > self._directory_bytes // 2 and len(self._groups) > 1:
            if self._merging is None:
                self._begin(Span(0, min(len(self._groups), self._fan_in)))
            told.append(self._merge_some())
        return told

    def _step(self) -> Results:
        if self._merging is None:
            chosen = self._chosen()
            assert chosen is not None
            self._begin(chosen)
        return self._results([self._merge_some()])

    def _finish(self) -> Iterator[Results]:
        if not self._groups:
            yield self._results([self._end_in_memory()])
            return
        while self._merging is not None:
            yield self._results([self._merge_some()])
        if self._arrivals.count:
            yield self._results(self._write_arrivals())
        while self._groups:
            if self._merging is None:
                span = last_span([group.tuples for group in self._groups], self._fan_in, self._inner_fan_in)
                self._begin(span, ending=span.many == len(self._groups))
            yield self._results([self._merge_some()])

    def _end_in_memory(self) -> Told:
        """Nothing was ever written: join what there is, and let it go."""
        self._arrivals.sort()
        results = self._swept(ALWAYS)
        held = self._arrivals.tuples[:, : self._arrivals.count]
        unmatched = held[:, held[self._layout.id] >= 0][[self._layout.stream, self._layout.id]]
        self.statistics.purged += self._arrivals.count
        self._arrivals.count = 0
        return Told(results, unmatched)

    def _swept(self, window: Window) -> Int64Array:
        """Results of the arrivals with each other."""
        count = self._arrivals.count
        self.statistics.probes += count * (self.streams - 1)
        return self._sweep.join(self._arrivals.tuples, Columns(0, 0, 0, count), np.ones(self.streams, bool), window)

    def _chosen(self) -> Span | None:
        levels = [level_of(group.tuples, self._arrivals.capacity, self._fan_in) for group in self._groups]
        return self._strategy.choose(Waiting(levels, self._fan_in, self._inner_fan_in, self.arrived_since_advance))

    @property
    def _inner_fan_in(self) -> int:
        """How many groups are merged at once where nothing is joined: there stream after stream is."""
        joins = self._window(Span(1, 2), ending=False) is not None
        return self._fan_in if joins else max(self._fan_in, self._runs_at_once)

    def _begin(self, span: Span, *, ending: bool = False) -> None:
        stream = -1 if self._window(span, ending=ending) is not None else 0
        self._merging = _Merging(span, ending, stream, self._merge_of(span, stream, ending=ending), [])

    def _merge_of(self, span: Span, stream: int, *, ending: bool) -> MultipleMerge:
        """The merge of groups: of all streams, or of one."""
        window = self._window(span, ending=ending)
        sources = [
            Source(run, of, -1 if self.needs_validity else group)
            for group in range(span.many)
            for of, run in enumerate(self._groups[span.first + group].runs)
            if run.count and stream in {-1, of}
        ]
        return MultipleMerge(
            self._spill,
            self._layout,
            self.streams,
            sources,
            None if window is None else self._sweep,
            self._table,
            self._arrivals.scratch_bytes,
            ALWAYS if window is None else window,
            ending=ending,
        )

    def _merge_some(self) -> Told:
        """Go on with the merge; at its end put what has come of it in the place of the groups."""
        merging = self._merging
        assert merging is not None
        merge, swept = merging.merge, merging.merge.tuples_swept
        told = Told(*merge.advance(self._slice(self._window(merging.span, ending=merging.ending))))
        self.statistics.probes += (merge.tuples_swept - swept) * (self.streams - 1)
        if merge.is_over:
            self._end_stream(merging)
        return told

    def _end_stream(self, merging: _Merging) -> None:
        """The runs of a stream, or of all, are merged: go on with the next stream's."""
        if merging.stream < 0:
            merging.done = merging.merge.runs
        else:
            merging.done.append(merging.merge.runs[merging.stream])
        if 0 <= merging.stream < self.streams - 1:
            merging.stream += 1
            merging.merge = self._merge_of(merging.span, merging.stream, ending=merging.ending)
        else:
            self._end_merge()

    def _end_merge(self) -> None:
        """Put what has been merged in the place of the groups."""
        merging = self._merging
        assert merging is not None
        span = merging.span
        merged = self._groups[span.first : span.first + span.many]
        group = Group(merging.done, merged[-1].until)
        self.statistics.flushed += group.tuples
        self.statistics.purged += sum(old.tuples for old in merged) - group.tuples
        for old in merged:
            for run in old.runs:
                run.remove()
        self._groups[span.first : span.first + span.many] = [] if merging.ending else [group]
        self._merging = None

    def _directories_used(self) -> int:
        runs = [run for group in self._groups for run in group.runs]
        if self._merging is not None:
            runs += self._merging.done
        written = 0 if self._merging is None else self._merging.merge.directory_bytes
        return sum(run.memory_used() for run in runs) + written
