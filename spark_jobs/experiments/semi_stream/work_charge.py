"""Charges a virtual clock for the work of a join's processor, from the counts of its statistics."""

from __future__ import annotations

from spark_jobs.experiments.virtual_disk import VirtualClock
from spark_jobs.joins.semi_stream.base import SemiStreamJoin
from spark_jobs.joins.semi_stream.theory.processor_costs import ProcessorCosts


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
