"""What is measured of a run, from what its tuples have waited and its processor has done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_jobs.experiments.virtual_relation import VirtualClock
from spark_jobs.joins.semi_stream.base import SemiStreamJoin
from spark_jobs.joins.semi_stream.theory.setting import ProcessorCosts

Int64Array = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_FIRST_IDS = 1 << 10


@dataclass(frozen=True)
class Measurement:
    """One measured run, warm-up left out. Times in seconds of the run's clock, virtual or real.

    Attributes:
        settled: stream tuples joined, or found to have no match.
        seconds: in which they were settled: work of join, disk and processor, and time without work; for a
            saturated stream there is none of the latter.
        pages_read: pages of R read by number.
        lookups: accesses to R by its index.
        bytes_read: bytes of R.
        probes: see Statistics.
        front_stage_hits: stream tuples that found their tuple of R in the front stage.
        shed: stream tuples given up.
        mean_processing: mean time that a settled tuple spent in the join while that worked
            (processing time of 000 §3).
        mean_waiting: mean time that it waited for the join to begin: outside because the join was busy,
            or inside because it stood still until more of the stream came (waiting time of 000 §3).
        mean_queue: mean number of stream tuples in the join when a step began.
    """

    settled: int
    seconds: float
    pages_read: int
    lookups: int
    bytes_read: int
    probes: int
    front_stage_hits: int
    shed: int
    mean_processing: float
    mean_waiting: float
    mean_queue: float

    @property
    def service_rate(self) -> float:
        """Settled tuples per second, μ of 000."""
        return self.settled / self.seconds

    @property
    def hit_ratio(self) -> float:
        """Share of the settled tuples that the front stage settled; 0 without one."""
        return self.front_stage_hits / self.settled

    @property
    def accesses(self) -> int:
        """Accesses to R: pages read by number, and lookups."""
        return self.pages_read + self.lookups

    @property
    def tuples_per_access(self) -> float:
        """Stream tuples that one access to R settled, w of 000; those of the front stage not counted."""
        return (self.settled - self.front_stage_hits) / max(1, self.accesses)

    @property
    def mean_stay(self) -> float:
        """Mean time from a tuple's arrival until it was settled."""
        return self.mean_processing + self.mean_waiting


class WaitingTuples:
    """Hands ids out and takes them back. Every call costs O(tuples it is given), amortised.

    Ids stay below twice the most tuples that ever waited at once, so that arrays indexed by them stay
    small, however long the stream.

    Args:
        columns: how many numbers to remember of each tuple.
    """

    def __init__(self, columns: int) -> None:
        self._remembered: list[FloatArray] = [np.zeros(0)] * columns
        self._free: Int64Array = np.empty(0, np.int64)
        self._free_count = 0

    def enter(self, count: int, values: Sequence[float | FloatArray]) -> Int64Array:
        """Ids for new tuples, int64, shape (count,); for each column the value of all or of each is remembered."""
        while count > self._free_count:
            self._make_ids()
        self._free_count -= count
        ids = self._free[self._free_count : self._free_count + count].copy()
        for column, value in zip(self._remembered, values, strict=True):
            column[ids] = value
        return ids

    def leave(self, ids: Int64Array) -> list[float]:
        """Take the ids of settled tuples back; for each column the sum of what was remembered of them."""
        sums = [float(column[ids].sum()) for column in self._remembered]
        self._free[self._free_count : self._free_count + len(ids)] = ids
        self._free_count += len(ids)
        return sums

    def _make_ids(self) -> None:
        before = len(self._free)
        after = max(_FIRST_IDS, 2 * before)
        free = np.empty(after, np.int64)
        free[: self._free_count] = self._free[: self._free_count]
        made = after - before
        # The lowest on top: they are handed out first.
        free[self._free_count : self._free_count + made] = np.arange(after - 1, before - 1, -1)
        self._free = free
        self._free_count += made
        self._remembered = [np.concatenate([column, np.zeros(made)]) for column in self._remembered]


class WorkCharge:
    """What the processor costs since the last time it was asked (000 equation (3), without c_I/O).

    A tuple of the back stage costs c_S + c_A + c_O + c_E, and each probe of a page's tuple c_H. A tuple that
    the front stage settles is neither appended nor evicted: it costs its probe, c_S and c_O. A tuple without
    match costs as much as one with: it is reported. One that is shed is not.

    Args:
        join: whose work it is.
        costs: seconds per tuple.
        clock: what is charged.
    """

    def __init__(self, join: SemiStreamJoin, costs: ProcessorCosts, clock: VirtualClock) -> None:
        self._statistics = join.statistics
        self._costs = costs
        self._clock = clock
        self._has_front_stage = "front_stage_hits" in join.statistics.extra
        self._charged = 0.0

    def charge(self) -> None:
        """Let the time pass that the work since the last call took."""
        costs, counts = self._costs, self._statistics
        front_probes = counts.pushed if self._has_front_stage else 0
        hits = counts.extra["front_stage_hits"] if self._has_front_stage else 0
        settled = counts.matched + counts.unmatched - hits
        entered_in_vain = counts.shed * (costs.per_joined_tuple - costs.emit)
        work = (
            (counts.probes - front_probes) * costs.probe
            + front_probes * costs.front_probe
            + hits * (costs.read + costs.emit)
            + settled * costs.per_joined_tuple
            + entered_in_vain
        )
        self._clock.advance(work - self._charged)
        self._charged = work
