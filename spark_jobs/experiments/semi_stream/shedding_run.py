"""The series of 003 Fig. 7 and Fig. 8: service rate under load shedding, as plain data.

Overload x means: stream tuples come at x times the service rate that the join has without shedding, on
a stream that never lets it wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from spark_jobs.experiments.semi_stream.join_run import measure_saturated
from spark_jobs.experiments.semi_stream.overloaded_run import (
    SHED_TO_DISK,
    SHED_TO_NETWORK,
    ChargedDestination,
    OverloadedRun,
    SheddingMeasurement,
)
from spark_jobs.experiments.semi_stream.workloads import Workload
from spark_jobs.experiments.virtual_relation import HARD_DISK, DiskProfile, VirtualClock, VirtualDisk, VirtualRelation
from spark_jobs.joins.semi_stream import create
from spark_jobs.joins.semi_stream.base import SemiStreamJoin
from spark_jobs.joins.semi_stream.cached_join import CachedJoin
from spark_jobs.joins.semi_stream.hybrid_join import HybridJoin
from spark_jobs.joins.semi_stream.load_shedding import (
    MemoryDestination,
    SheddingPolicy,
    considered,
    untuned,
    upfront,
)
from spark_jobs.joins.semi_stream.lookup_position import FixedPosition, LongestWait, LookupPosition, OldestTuple
from spark_jobs.joins.semi_stream.theory.setting import PAPER_ERA, ProcessorCosts

LOOKUP_SHARES = tuple(percent / 100 for percent in range(0, 101, 5))
OVERLOADS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
LONGEST_WAIT = "longest wait (ours)"

Watch = Callable[[str, float], None]


@dataclass(frozen=True)
class SheddingPoint:
    """One point of a series.

    Attributes:
        series: its name in the legend.
        x: Fig. 7: the lookup position in percent of the queue, from its start; Fig. 8: stream tuples a second.
        service_rate: settled stream tuples a second.
        measurement: all that was counted.
    """

    series: str
    x: float
    service_rate: float
    measurement: SheddingMeasurement


@dataclass(frozen=True)
class SheddingSetting:
    """What is joined, and how long: on a virtual disk, so that all machines agree.

    Attributes:
        workload: R and the stream.
        memory_bytes: the join's budget.
        page_rows: tuples of the disk buffer.
        warm_up: stream tuples settled before measuring, at least; the front stage has to be filled.
        measured: stream tuples settled while measuring, at least.
        cached: CHYBRIDJOIN if true, as in the paper; HYBRIDJOIN if not.
        disk: what R lies on.
        processor: what the join's own work costs.
        watch: told which point is measured, and the share of the figure that is done.
    """

    workload: Workload
    memory_bytes: int
    page_rows: int
    warm_up: int
    measured: int
    cached: bool = True
    disk: DiskProfile = HARD_DISK
    processor: ProcessorCosts = PAPER_ERA
    watch: Watch = lambda what, share: None

    def page_count(self) -> int:
        """Pages of R."""
        return -(-self.workload.key_count // self.page_rows)

    def hybrid_join(self, relation: VirtualRelation, position: LookupPosition) -> SemiStreamJoin:
        """CHYBRIDJOIN or HYBRIDJOIN with a lookup position."""
        if not self.cached:
            return HybridJoin(relation, self.memory_bytes, position)
        return CachedJoin(relation, self.memory_bytes, lambda r, memory: HybridJoin(r, memory, position))

    def relation(self, clock: VirtualClock) -> VirtualRelation:
        """R, which charges a clock."""
        disk = VirtualDisk(self.disk, clock)
        tuple_bytes = self.workload.tuple_bytes
        return VirtualRelation(self.workload.key_count, disk, tuple_bytes=tuple_bytes, page_rows=self.page_rows)


def unshedded_service_rate(setting: SheddingSetting) -> float:
    """Service rate of the join on a stream that never lets it wait, in stream tuples a second."""
    clock = VirtualClock()
    relation = setting.relation(clock)
    return measure_saturated(
        setting.hybrid_join(relation, OldestTuple()),
        relation,
        setting.workload.stream(seed=1),
        clock,
        setting.processor,
        warm_up=setting.warm_up,
        measured=setting.measured,
    ).service_rate


def lookup_position_series(
    setting: SheddingSetting, overload: float = 2.0, shares: Sequence[float] = LOOKUP_SHARES
) -> list[SheddingPoint]:
    """003 Fig. 7: service rate by lookup position, in steps of 5 % of the queue.

    Published: it rises up to 15 %, and falls from there on.

    Returns:
        The series "lookup position", one point a share, and LONGEST_WAIT, which has no fixed position: the
        same at the first share and at the last.
    """
    rate = overload * unshedded_service_rate(setting)
    points = []
    for number, share in enumerate(shares):
        setting.watch(f"lookup at {share:.0%}", number / (len(shares) + 1))
        measurement = _measure(setting, considered(FixedPosition(share)), rate)
        points.append(SheddingPoint("lookup position", 100 * share, measurement.service_rate, measurement))
    setting.watch(LONGEST_WAIT, len(shares) / (len(shares) + 1))
    ours = _measure(setting, considered(LongestWait(setting.page_count())), rate)
    ends = (shares[0], shares[-1])
    return points + [SheddingPoint(LONGEST_WAIT, 100 * share, ours.service_rate, ours) for share in ends]


def arrival_rate_series(setting: SheddingSetting, overloads: Sequence[float] = OVERLOADS) -> list[SheddingPoint]:
    """003 Fig. 8: service rate by arrival rate, from a stream that the join keeps up with to five times as fast.

    Published: tuned shedding 33 % above untuned, and 3.1 times MESHJOIN's way (upfront); to the network a
    little above to the disk; MESHJOIN very low.

    Returns:
        For each overload a point of "tuned, to disk", "tuned, to network", "untuned", "upfront", "MESHJOIN" and
        LONGEST_WAIT; all but the second shed to the disk.
    """
    unshedded = unshedded_service_rate(setting)
    points = []
    work = [(overload, line) for overload in overloads for line in _lines(setting)]
    for number, (overload, line) in enumerate(work):
        setting.watch(f"{line.name} at {overload:g} times the service rate", number / len(work))
        rate = overload * unshedded
        measurement = _measure(setting, line.policy, rate, line.profile, mesh_join=line.mesh_join)
        points.append(SheddingPoint(line.name, rate, measurement.service_rate, measurement))
    return points


@dataclass(frozen=True)
class _Line:
    name: str
    policy: SheddingPolicy
    profile: DiskProfile = SHED_TO_DISK
    mesh_join: bool = False


def _lines(setting: SheddingSetting) -> Iterator[_Line]:
    yield _Line("tuned, to disk", considered())
    yield _Line("tuned, to network", considered(), SHED_TO_NETWORK)
    yield _Line("untuned", untuned())
    yield _Line("upfront", upfront())
    yield _Line("MESHJOIN", upfront(), mesh_join=True)
    yield _Line(LONGEST_WAIT, considered(LongestWait(setting.page_count())))


def _measure(
    setting: SheddingSetting,
    policy: SheddingPolicy,
    rate: float,
    profile: DiskProfile = SHED_TO_DISK,
    *,
    mesh_join: bool = False,
) -> SheddingMeasurement:
    clock = VirtualClock()
    relation = setting.relation(clock)
    join = (
        create("mesh_join", relation, setting.memory_bytes)
        if mesh_join
        else setting.hybrid_join(relation, policy.position)
    )
    run = OverloadedRun(
        join,
        policy,
        ChargedDestination(MemoryDestination(), profile, clock),
        relation,
        setting.workload.key_count,
        setting.workload.stream(seed=1),
        clock,
        setting.processor,
    )
    run.measure(rate, setting.warm_up)
    return run.measure(rate, setting.measured)
