"""Runs of the real operators on a virtual disk, for predictions to be held against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spark_jobs.experiments.semi_stream.join_run import SaturatedRun
from spark_jobs.experiments.semi_stream.run_measurement import Measurement
from spark_jobs.experiments.semi_stream.workloads import zipf
from spark_jobs.experiments.virtual_relation import HARD_DISK, DiskProfile, VirtualClock, VirtualDisk, VirtualRelation
from spark_jobs.joins.semi_stream import create
from spark_jobs.joins.semi_stream.base import SemiStreamJoin
from spark_jobs.joins.semi_stream.theory.popularity import ZipfStream
from spark_jobs.joins.semi_stream.theory.setting import PAPER_ERA, DiskCosts, Setting

TUPLE_BYTES = 120
_STREAM_TUPLE_BYTES = 43


def costs_of(profile: DiskProfile) -> DiskCosts:
    """What the virtual disk charges, in the models' terms: a lookup reads a block for each key."""
    lookup = profile.seconds(TUPLE_BYTES)
    return DiskCosts(profile.seek_seconds, profile.bytes_per_second, lookup, lookup)


@dataclass(frozen=True)
class Scene:
    """A relation, a stream, a budget and a disk."""

    row_count: int
    exponent: float
    shuffled: bool
    page_rows: int
    memory_share: float
    profile: DiskProfile = HARD_DISK

    @property
    def memory_bytes(self) -> int:
        return int(self.row_count * TUPLE_BYTES * self.memory_share)

    @property
    def held(self) -> int:
        """About as many stream tuples as memory holds."""
        return self.memory_bytes // _STREAM_TUPLE_BYTES

    @property
    def stream(self) -> ZipfStream:
        return ZipfStream(self.row_count, self.exponent, self.shuffled)

    @property
    def setting(self) -> Setting:
        costs = costs_of(self.profile)
        return Setting(self.row_count, TUPLE_BYTES, self.page_rows, self.memory_bytes, costs, PAPER_ERA)

    def run(self, make: Callable[[VirtualRelation], SemiStreamJoin]) -> SaturatedRun:
        clock = VirtualClock()
        disk = VirtualDisk(self.profile, clock)
        relation = VirtualRelation(self.row_count, disk, tuple_bytes=TUPLE_BYTES, page_rows=self.page_rows)
        workload = zipf(self.row_count, self.exponent, sorted_by_rank=not self.shuffled)
        return SaturatedRun(make(relation), relation, workload.stream(seed=1), clock, PAPER_ERA)

    def measured(
        self, algorithm: str, *, front_share: float | None = None, warm_up: float = 8, measured: float = 16
    ) -> Measurement:
        """An algorithm at work; both phases as multiples of the tuples that memory holds."""
        run = self.run(lambda relation: create(algorithm, relation, self.memory_bytes, front_share=front_share))
        run.measure(int(warm_up * self.held))
        return run.measure(int(measured * self.held))
