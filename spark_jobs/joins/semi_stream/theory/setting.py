"""What the cost of a semi-stream join follows from besides the stream, and the form in which a model tells it.

R, the memory, what reading costs (c_I/O) and what the processor's work costs; symbols of 000 Table 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spark_jobs.joins.semi_stream.theory.popularity import StreamPopularity

# Where large pages cost no more than small ones, a line has no slope to tell a throughput from.
_MOST_BYTES_PER_SECOND = 1e12


@dataclass(frozen=True)
class DiskCosts:
    """What R costs to read where it lies: a page by its number, or tuples by their keys.

    Symbols of 000 Table 1 and §4.4: c_I/O(v_P) = page_read_seconds(v_P), a seek and a transfer; 003 §5.3
    charges INLJ c_I/O of one tuple for each lookup, which is lookup_overhead_seconds here.

    Attributes:
        seek_seconds: before the first byte of a page: seek, latency, and what a server does for each query.
        bytes_per_second: from then on; what a server does for each tuple is in it.
        lookup_overhead_seconds: a lookup of one key; what a batch costs, whatever its number of keys.
        lookup_seconds_per_key: one more key in a batch, far from the others.
        page_reads: measured reads, (bytes of the page, seconds), by ascending bytes; none where the constants are
            all that is known.
        lookup_rows: neighbouring tuples of R that one read for a lookup brings: keys of a batch that fall on them
            share it; 1 where each key costs the same.
    """

    seek_seconds: float
    bytes_per_second: float
    lookup_overhead_seconds: float
    lookup_seconds_per_key: float
    page_reads: tuple[tuple[int, float], ...] = ()
    lookup_rows: int = 1

    def page_read_seconds(self, size: float) -> float:
        """One page of this size in bytes: c_I/O(v_P).

        Where pages were measured, the line through their costs counts, because a disk that reads the parts of a large
        page at the same time makes no straight line; beyond them and elsewhere, seek and transfer. It never falls
        with the size: where a larger page was read in less time, the smaller one was measured too dear.
        """
        fitted = self.seek_seconds + size / self.bytes_per_second
        if not self.page_reads:
            return fitted
        sizes, seconds = zip(*self.page_reads, strict=True)
        rising = np.minimum.accumulate(seconds[::-1])[::-1]
        if size < sizes[0]:
            return min(fitted, float(rising[0]))
        return float(np.interp(size, sizes, rising)) + max(0.0, size - sizes[-1]) / self.bytes_per_second

    def lookup_seconds(self, keys: int) -> float:
        """One lookup of a batch of at least one key."""
        return self.lookup_overhead_seconds + (keys - 1) * self.lookup_seconds_per_key


def fit_page_reads(sizes: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Seek in seconds and throughput in bytes per second that explain measured page reads best.

    Least squares of the relative errors, so that small pages count as much as large ones. Where the
    best line would need a negative seek or transfer, the best one without is taken.

    Args:
        sizes: bytes of the pages. If all are the same, all their cost is seek: an R of one page has no other.
        seconds: what reading each took, above 0.
    """
    cost = np.asarray(seconds, np.float64)
    columns = np.column_stack([np.ones(len(cost)), np.asarray(sizes, np.float64)]) / cost[:, None]
    if len(set(sizes)) > 1:
        (seek, per_byte), *_ = np.linalg.lstsq(columns, np.ones(len(cost)), rcond=None)
        if seek < 0:
            seek, per_byte = 0.0, _one_cost(columns[:, 1])
        if per_byte * _MOST_BYTES_PER_SECOND >= 1:
            return float(seek), float(1 / per_byte)
    return _one_cost(columns[:, 0]), _MOST_BYTES_PER_SECOND


def _one_cost(column: NDArray[np.float64]) -> float:
    """The factor that brings a column closest to ones."""
    return float(column.sum() / (column**2).sum())


@dataclass(frozen=True)
class ProcessorCosts:
    """Seconds of processor time by what is done (000 Table 1); the last four are ours.

    Attributes:
        probe: a tuple of R looked up among the waiting stream tuples, c_H.
        front_probe: a stream tuple looked up in the front stage; part of c_H in 003.
        emit: a joined tuple handed on, c_O.
        evict: a stream tuple taken out of hash table and queue, c_E.
        read: a stream tuple taken from the stream buffer, c_S.
        append: a stream tuple put into hash table and queue, c_A.
        per_access: a step of the join, whatever it settles: choosing what to read, and calls.
        upkeep_per_access: what a front stage adds to a step of its back stage.
        upkeep_per_miss: a stream tuple that a front stage misses, counted, offered to it and, some of them, taken in.
        multimap: the constants of MESHJOIN's hash table, which finds tuples by their keys alone, where they differ
            from those of HYBRIDJOIN's, which keeps the tuples of a page together.
    """

    probe: float
    front_probe: float
    emit: float
    evict: float
    read: float
    append: float
    per_access: float = 0.0
    upkeep_per_access: float = 0.0
    upkeep_per_miss: float = 0.0
    multimap: ProcessorCosts | None = None

    @property
    def per_joined_tuple(self) -> float:
        """Seconds that every tuple of the back stage costs whatever the algorithm: c_O + c_E + c_S + c_A."""
        return self.emit + self.evict + self.read + self.append


FREE_PROCESSOR = ProcessorCosts(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

# An assumption: 000 and 003 name the constants but print no values. These are of the order that java.util's
# hash maps and linked lists reach on the machine of their experiments (a 2.4 GHz core, 2010): a cache miss or two
# for a probe, an allocation for a tuple put in or handed on.
PAPER_ERA = ProcessorCosts(probe=0.2e-6, front_probe=0.2e-6, emit=0.5e-6, evict=0.3e-6, read=0.3e-6, append=0.5e-6)


@dataclass(frozen=True)
class Setting:
    """One join's circumstances, in the symbols of 000 Table 1.

    Attributes:
        row_count: tuples of R, R_t.
        tuple_bytes: size of one, v_R.
        page_rows: tuples of a page, which is what the disk buffer holds, D_t; whole or not.
        memory_bytes: the join's budget, M.
        disk: what reading costs, c_I/O.
        processor: what a tuple costs, c_H, c_O, c_E, c_S and c_A, and what a step does.
    """

    row_count: int
    tuple_bytes: int
    page_rows: float
    memory_bytes: float
    disk: DiskCosts
    processor: ProcessorCosts

    @property
    def page_bytes(self) -> float:
        """Size of a page and of the disk buffer, v_P."""
        return self.page_rows * self.tuple_bytes

    @property
    def page_count(self) -> float:
        """Pages of R."""
        return max(1.0, self.row_count / self.page_rows)

    @property
    def page_seconds(self) -> float:
        """A step that reads a page and probes each tuple of it: c_I/O(v_P) + (v_P / v_R) c_H of 000 equation (3)."""
        rows = min(self.page_rows, self.row_count)
        reading = self.disk.page_read_seconds(int(rows * self.tuple_bytes))
        return reading + rows * self.processor.probe + self.processor.per_access

    @property
    def with_multimap(self) -> Setting:
        """The same with what a tuple costs in MESHJOIN's hash table."""
        return replace(self, processor=self.processor.multimap or self.processor)


@dataclass(frozen=True)
class BackStage:
    """A back stage whose stream never lets it wait.

    Attributes:
        waiting_tuples: stream tuples that memory holds, h_S.
        unsettled_tuples: those of them that wait for their match, on average, and those in a stream buffer.
        matches_per_access: w, stream tuples that an access to R settles.
        access_seconds: an access and all that belongs to it, c_loop of 000 equation (3).
    """

    waiting_tuples: float
    unsettled_tuples: float
    matches_per_access: float
    access_seconds: float

    @property
    def seconds_per_tuple(self) -> float:
        """What a stream tuple costs; one over the service rate, 000 equation (4)."""
        return self.access_seconds / self.matches_per_access


BackStageModel = Callable[[Setting, StreamPopularity, float], BackStage]
"""A cost model of a setting with the memory of this stage, of the stream before any front stage, and of how many of its
hottest keys a front stage settles. Raises a MemoryBudgetError where memory does not hold a page and one stream tuple.
"""
