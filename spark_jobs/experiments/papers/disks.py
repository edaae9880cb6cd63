"""Where R lies while a figure is measured: on a virtual disk, in a direct file, or in PostgreSQL."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from spark_jobs.errors import WorkloadError
from spark_jobs.experiments.calibration.disk_calibration import measure_disk
from spark_jobs.experiments.calibration.processor_calibration import measure_processor
from spark_jobs.experiments.semi_stream.real_disks import direct_relation, postgres_relation
from spark_jobs.experiments.semi_stream.workloads import Workload
from spark_jobs.experiments.virtual_relation import (
    HARD_DISK,
    SOLID_STATE_DISK,
    DiskProfile,
    VirtualClock,
    VirtualDisk,
    VirtualRelation,
)
from spark_jobs.joins.semi_stream.theory.setting import FREE_PROCESSOR, PAPER_ERA, DiskCosts, ProcessorCosts
from spark_jobs.local.warehouse_server import warehouse
from spark_jobs.settings import Home

# Of a relation that is calibrated: its smallest pages, and those for which the processor's work is measured.
_FINEST_PAGE_ROWS = 100
_TYPICAL_PAGE_BYTES = 64 << 10

DISKS = ("virtual-hdd", "virtual-ssd", "direct", "postgres")

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class OpenRelation:
    """R ready to be joined.

    Attributes:
        relation: a NumberedRelation.
        clock: tells the time of a run.
        processor: what the join's own work is charged on a virtual clock; None on a real one.
    """

    relation: Any
    clock: Callable[[], float]
    processor: ProcessorCosts | None


class Costs(NamedTuple):
    """The constants of the cost models: reading R, and the join's own work."""

    reading: DiskCosts
    processor: ProcessorCosts


class Disk(ABC):
    """Opens relations, and knows what they cost to read."""

    name: str

    @abstractmethod
    def open(self, workload: Workload, page_rows: int) -> AbstractContextManager[OpenRelation]:
        """The workload's R in pages of this many keys, until the block ends."""

    @abstractmethod
    def costs(self, workload: Workload) -> Costs:
        """What the cost models are to charge for the workload's R."""


class VirtualKind(Disk):
    """A disk that exists on paper: every relation comes with a clock of its own.

    Args:
        profile: what a read costs.
        processor: what the join's own work is charged.
    """

    def __init__(self, profile: DiskProfile, processor: ProcessorCosts) -> None:
        self.name = profile.name
        self.profile = profile
        self.processor = processor

    @contextmanager
    def open(self, workload: Workload, page_rows: int) -> Iterator[OpenRelation]:
        """R with a new clock."""
        clock = VirtualClock()
        disk = VirtualDisk(self.profile, clock)
        relation = VirtualRelation(workload.key_count, disk, tuple_bytes=workload.tuple_bytes, page_rows=page_rows)
        yield OpenRelation(relation, clock, self.processor)

    def costs(self, workload: Workload) -> Costs:
        """What the disk charges."""
        profile = self.profile
        lookup = profile.seconds(workload.tuple_bytes)
        return Costs(DiskCosts(profile.seek_seconds, profile.bytes_per_second, lookup, lookup), self.processor)


class RealKind(Disk):
    """A disk of this machine, read on the real clock; each relation is calibrated when it is first asked for.

    Args:
        name: on the command line.
        make: opens R from key count, tuple size and page rows until a block ends, and makes it where it is not there.
    """

    def __init__(self, name: str, make: Callable[[int, int, int], AbstractContextManager[Any]]) -> None:
        self.name = name
        self._make = make
        self._calibrated: dict[tuple[int, int], Costs] = {}

    @contextmanager
    def open(self, workload: Workload, page_rows: int) -> Iterator[OpenRelation]:
        """R as it lies there."""
        with self._make(workload.key_count, workload.tuple_bytes, page_rows) as relation:
            yield OpenRelation(relation, time.perf_counter, None)

    def costs(self, workload: Workload) -> Costs:
        """What was measured of R."""
        size = (workload.key_count, workload.tuple_bytes)
        if size not in self._calibrated:
            with self.open(workload, _FINEST_PAGE_ROWS) as opened:
                reading = measure_disk(opened.relation).costs
            page_rows = max(1, _TYPICAL_PAGE_BYTES // workload.tuple_bytes)
            processor = measure_processor(
                waiting_tuples=workload.key_count // 10,
                page_rows=page_rows,
                page_count=-(-workload.key_count // page_rows),
                cached_tuples=max(1, workload.key_count // 100),
            )
            self._calibrated[size] = Costs(reading, processor)
        return self._calibrated[size]


@contextmanager
def disk_of(name: str, home: Home, progress: Progress) -> Iterator[Disk]:
    """The disk of this name, until the block ends.

    Args:
        name: one of DISKS; the virtual solid-state disk comes with a processor that costs nothing, so that it shows
            reading alone.
        home: direct files lie in its folder `papers`; PostgreSQL is its warehouse's server.
        progress: told while R is made.

    Raises:
        WorkloadError: there is no such disk.
    """
    if name == "virtual-hdd":
        yield VirtualKind(HARD_DISK, PAPER_ERA)
    elif name == "virtual-ssd":
        yield VirtualKind(SOLID_STATE_DISK, FREE_PROCESSOR)
    elif name == "direct":
        yield RealKind(name, partial(_direct_file, home.root / "papers", progress))
    elif name == "postgres":
        with warehouse(home) as url:
            yield RealKind(name, partial(_postgres, url, progress))
    else:
        raise WorkloadError(f"There is no disk {name!r}: give one of {', '.join(DISKS)}.")


def _direct_file(
    folder: Path, progress: Progress, key_count: int, tuple_bytes: int, page_rows: int
) -> AbstractContextManager[Any]:
    return closing(direct_relation(folder, key_count, tuple_bytes, page_rows, progress))


def _postgres(
    url: str, progress: Progress, key_count: int, tuple_bytes: int, page_rows: int
) -> AbstractContextManager[Any]:
    # All relations of a process share a connection, which stays open.
    return nullcontext(postgres_relation(url, key_count, tuple_bytes, page_rows, progress))
