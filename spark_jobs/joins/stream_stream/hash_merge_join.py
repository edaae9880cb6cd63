"""Hash-merge join: XJoin's memory, and what leaves it is sorted and merged as the progressive merge join does.

    hashing   a tuple arrives               it meets what the other stream has in memory, and is stored
              memory is full                a partition leaves it on both sides, sorted: a group of two runs
    merging   the inputs pause, or ended    groups of a partition are merged into one

                   group 2       group 1        group 0
    partition 0    runs 0, 1     runs 0, 1      runs 0, 1      what is in one group has met in memory,
    partition 1                  runs 0, 1      runs 0, 1      tuples of two groups meet in the merge

Mokbel, Lu, Aref: Hash-Merge Join: A Non-blocking Join Algorithm for Producing Fast and Early Join Results, 2004
(000 §2, 003 §2, 004 §2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from spark_jobs.joins.memory_budget import tuples_within
from spark_jobs.joins.stream_stream.base import Int64Array, Results, StreamStreamJoin, Tuples, of_stream
from spark_jobs.joins.stream_stream.flushing import FlushingPolicy, balanced
from spark_jobs.joins.stream_stream.merge_strategies import Greedy, MergeStrategy, Span, Waiting
from spark_jobs.joins.stream_stream.multiple_merge import MergeTable, MultipleMerge
from spark_jobs.joins.stream_stream.predicates import Predicate, expect_equality
from spark_jobs.joins.stream_stream.spill import SpillStore
from spark_jobs.joins.stream_stream.spilled_partitions import (
    MOST_PARTITIONS,
    NO_IDS,
    STREAMS,
    expect_two_streams,
    paired,
)
from spark_jobs.joins.stream_stream.sweeps import sweep_for
from spark_jobs.joins.structures.hashed_streams import ID, KEY, MATCHED, HashedStreams
from spark_jobs.joins.structures.sorted_runs import Layout, Run, RunMerge, Source, order_of

# Parts of the memory: to sort what leaves it, or to merge; and for the runs' directories.
_SCRATCH_SHARE = 4
_DIRECTORY_SHARE = 16
# Of the scratch space while merging, for pages; the rest is the table in which tuples meet.
_PAGES_SHARE = 3
# What a tuple takes to be sorted: as it was taken, its place in the order and in the scratch of that, as it is written.
_SORT_BYTES = 64
# Pages of the budget for each partition, so that directories have room for a page of each run.
_PAGES_PER_PARTITION = 64
_FEWEST_GROUPS = 2
_MOST_GROUPS = 32
_MOST_TUPLES_A_STEP = 1 << 16
# Part of the scratch space that one partition may come to need by the arrival of a piece.
_PIECE_SHARE = 4


@dataclass
class _Group:
    """Runs that left memory together, or were merged: all pairs of their tuples are told.

    Attributes:
        runs: of each stream.
        level: how often its tuples were merged.
    """

    runs: list[Run]
    level: int = 0


class HashMergeJoin(StreamStreamJoin):
    """Joins two streams by equal keys, within any memory.

    O(1) a tuple and result in memory. A tuple that leaves memory is sorted, written, and read and written again in each
    merge but the last: a logarithm of the groups to the base of the fan-in. Unlike XJoin it finds results of any two
    tuples on disk while the inputs pause.

    Args:
        streams: two.
        predicate: equality.
        memory_bytes: the budget.
        spill: the disk.
        flushing: which partition leaves memory; it does so on both sides, whatever side the policy names.
        strategy: which groups of a partition are merged when the inputs pause.
        partitions: a power of two; if left out, as many as the pages of the disk allow, 64 at most.

    Raises:
        MemoryBudgetError: the budget does not hold what a merge of two groups takes, and one tuple.
        ValueError: the predicate is another one, or there are other than two streams.
    """

    def __init__(
        self,
        streams: int,
        predicate: Predicate,
        memory_bytes: int,
        spill: SpillStore,
        *,
        flushing: FlushingPolicy | None = None,
        strategy: MergeStrategy | None = None,
        partitions: int | None = None,
    ) -> None:
        super().__init__(streams, predicate)
        expect_equality("hash_merge_join", predicate)
        expect_two_streams("hash_merge_join", streams)
        self._memory_bytes = memory_bytes
        self._spill = spill
        self._flushing = flushing or balanced()
        self._strategy = strategy or Greedy()
        self._layout = layout = Layout(interval=False, validity=False)
        self._sweep = sweep_for(predicate, layout)
        page = spill.page_bytes
        if partitions is None:
            fitting = memory_bytes // (_PAGES_PER_PARTITION * page)
            partitions = 1 << (max(1, min(fitting, MOST_PARTITIONS)).bit_length() - 1)
        least_table = MergeTable.least_bytes(layout, STREAMS, page)
        group_bytes = RunMerge.bytes_for(layout, page, STREAMS)
        self._scratch = max(memory_bytes // _SCRATCH_SHARE, least_table + _FEWEST_GROUPS * group_bytes)
        wanted = max(self._scratch // _PAGES_SHARE, _FEWEST_GROUPS * group_bytes)
        self._page_memory = min(wanted, self._scratch - least_table)
        self._fan_in = min(_MOST_GROUPS, self._page_memory // group_bytes)
        # A page of each run of a partition, and of those that come of a merge.
        self._directory_bytes = max(memory_bytes // _DIRECTORY_SHARE, 2 * (partitions + 1) * STREAMS * page)
        fixed = self._scratch + self._directory_bytes
        capacity = tuples_within(
            memory_bytes,
            fixed,
            lambda count: HashedStreams.bytes_for(count, STREAMS, partitions),
            algorithm="hash_merge_join",
            fixed="what a merge of two groups takes",
        )
        self._memory = HashedStreams(capacity, STREAMS, partitions, growing=True)
        self._largest = self._scratch // _SORT_BYTES
        self._groups: list[list[_Group]] = [[] for _ in range(partitions)]
        self._merging: MultipleMerge | None = None

    @property
    def is_work(self) -> bool:
        """Whether the strategy would merge groups of a partition."""
        return not self._finished and self._chosen() is not None

    def memory_used(self) -> int:
        """Bytes of the tables, of the scratch space, and of what is kept for the runs' directories."""
        return self._memory.memory_used() + self._scratch + self._directory_bytes

    def tuples_in_memory(self) -> int:
        """Tuples of both streams."""
        return len(self._memory)

    def tuples_on_disk(self) -> int:
        """Tuples of both streams. O(groups)."""
        return sum(run.count for run in self._runs())

    def check(self) -> None:
        """Assert that memory is sound and within the budget, and that runs are in order. O(data)."""
        assert self.memory_used() <= self._memory_bytes
        assert self._directories_used() <= self._directory_bytes
        assert self._memory.counts.max() <= self._largest
        self._memory.check()
        for run in self._runs():
            run.check(self._layout)

    def _arrive(self, stream: int, tuples: Tuples) -> Results:
        found = [NO_IDS]
        first, count = 0, len(tuples.ids)
        while first < count:
            piece = min(count - first, max(1, self._largest // _PIECE_SHARE), self._memory.capacity)
            while self._memory.room < piece:
                chosen = self._flushing.choose(self._memory.counts, self._on_disk())
                found += self._flush(chosen[0][1])
            for partition in np.flatnonzero(self._memory.counts.max(axis=0) > self._largest - piece).tolist():
                found += self._flush(partition)
            found.append(self._meet(stream, tuples.part(slice(first, first + piece))))
            first += piece
        return Results(np.concatenate(found, axis=1))

    def _meet(self, stream: int, tuples: Tuples) -> Int64Array:
        """Results with what is in memory; the tuples are stored."""
        # In which order they came does not matter.
        found = self._memory.meet(stream, tuples.keys, tuples.ids, tuples.ids)
        self.statistics.probes += len(tuples.keys)
        return paired(stream, tuples.ids[found.rows], found.ids)

    def _flush(self, partition: int) -> list[Int64Array]:
        """Write a partition as a group; merge some, where the directories take too much by that: their results."""
        runs = []
        for stream in range(STREAMS):
            run = Run(self._spill)
            columns = self._memory.take_partition(stream, partition)
            if columns.size:
                order = order_of(columns[KEY], None)
                ids = np.where(columns[MATCHED] == 0, columns[ID], ~columns[ID])
                run.append(np.stack((columns[KEY][order], ids[order])))
            runs.append(run)
            self.statistics.flushed += run.count
        self._groups[partition].append(_Group(runs))
        found = []
        while self._directories_used() > self._directory_bytes // 2 and (crowded := self._crowded()) is not None:
            count = min(len(self._groups[crowded]), self._fan_in)
            found += [results.ids for results in self._merge(crowded, Span(0, count))]
        return found

    def _step(self) -> Results:
        chosen = self._chosen()
        assert chosen is not None
        return Results(np.concatenate([NO_IDS, *(results.ids for results in self._merge(*chosen))], axis=1))

    def _finish(self) -> Iterator[Results]:
        """Merge all that is left, partition by partition."""
        for partition, groups in enumerate(self._groups):
            if not groups:
                yield from self._end_in_memory(partition)
                continue
            if self._memory.counts[:, partition].any():
                for ids in self._flush(partition):
                    yield Results(ids)
            while len(groups) > self._fan_in:
                # The newest are the shortest. The last merge takes all that is left.
                count = min(self._fan_in, len(groups) - self._fan_in + 1)
                yield from self._merge(partition, Span(len(groups) - count, count))
            yield from self._merge(partition, Span(0, len(groups)), ending=True)

    def _end_in_memory(self, partition: int) -> Iterator[Results]:
        """A partition that never left memory: its pairs are told."""
        for stream in range(STREAMS):
            columns = self._memory.take_partition(stream, partition)
            ids = columns[ID, columns[MATCHED] == 0]
            if ids.size:
                yield Results(NO_IDS, unmatched=of_stream(stream, ids))

    def _merge(self, partition: int, span: Span, *, ending: bool = False) -> Iterator[Results]:
        """Merge neighbouring groups of a partition into one, or at the end into none."""
        groups = self._groups[partition]
        merged = groups[span.first : span.first + span.many]
        sources = [
            Source(run, stream, number)
            for number, group in enumerate(merged)
            for stream, run in enumerate(group.runs)
            if run.count
        ]
        table = MergeTable(self._layout, STREAMS, self._spill.page_bytes, self._scratch - self._page_memory)
        merge = MultipleMerge(
            self._spill, self._layout, STREAMS, sources, self._sweep, table, self._page_memory, ending=ending
        )
        self._merging = merge
        while not merge.is_over:
            swept = merge.tuples_swept
            results, unmatched = merge.advance(_MOST_TUPLES_A_STEP)
            self.statistics.probes += merge.tuples_swept - swept
            if not merge.is_over:
                yield Results(results[:STREAMS], unmatched=unmatched)
        self._merging = None
        for group in merged:
            for run in group.runs:
                run.remove()
        level = max(group.level for group in merged) + 1
        groups[span.first : span.first + span.many] = [] if ending else [_Group(merge.runs, level)]
        self.statistics.flushed += sum(run.count for run in merge.runs)
        yield Results(results[:STREAMS], unmatched=unmatched)

    def _chosen(self) -> tuple[int, Span] | None:
        """Partition and groups to merge next: of the partition that has most, among those that the strategy would."""
        for partition in np.argsort([-len(groups) for groups in self._groups], kind="stable").tolist():
            levels = [group.level for group in self._groups[partition]]
            if len(levels) < _FEWEST_GROUPS:
                break
            span = self._strategy.choose(Waiting(levels, self._fan_in, self._fan_in, self.arrived_since_advance))
            if span is not None:
                return partition, span
        return None

    def _crowded(self) -> int | None:
        """The partition with most groups; None where none has two."""
        counts = [len(groups) for groups in self._groups]
        return int(np.argmax(counts)) if max(counts) >= _FEWEST_GROUPS else None

    def _on_disk(self) -> Int64Array:
        """Tuples on disk, shape (streams, partitions)."""
        by_partition = [
            [sum(group.runs[stream].count for group in groups) for stream in range(STREAMS)] for groups in self._groups
        ]
        return np.array(by_partition, np.int64).T

    def _runs(self) -> Iterator[Run]:
        return (run for groups in self._groups for group in groups for run in group.runs)

    def _directories_used(self) -> int:
        written = 0 if self._merging is None else self._merging.directory_bytes
        return written + sum(run.memory_used() for run in self._runs())
