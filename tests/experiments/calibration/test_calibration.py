"""Measuring what reads of R cost: by a clock that the test winds, on a virtual disk, and for real."""

import math
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from spark_jobs.experiments.calibration.disk_calibration import DiskMeasurement, measure_disk
from spark_jobs.experiments.direct_file.direct_relation import open_direct_file
from spark_jobs.experiments.virtual_relation import (
    HARD_DISK,
    SOLID_STATE_DISK,
    DiskProfile,
    VirtualClock,
    VirtualDisk,
    VirtualRelation,
)
from spark_jobs.lookup.relation.access_costs import measure_access, median_of_means
from tests.experiments.direct_file.files import write
from tests.lookup.conftest import Open

Execute = Callable[..., None]


@pytest.mark.parametrize(("rows", "page_rows"), [(5_000, 2), (5_000, 100), (3, 10), (1, 10), (0, 10)])
def test_each_read_counts_once(execute: Execute, open_relation: Open, rows: int, page_rows: int) -> None:
    execute(f"CREATE TABLE r (k text PRIMARY KEY); INSERT INTO r SELECT 'k' || g FROM generate_series(1, {rows}) AS g")
    relation = open_relation("public.r", {"text": "k"}, {"k": "k"}, page_rows)
    ticks = count()
    costs = measure_access(relation, lambda: float(next(ticks)))
    assert costs.page_read_seconds == 1
    assert costs.lookup_overhead_seconds == 1
    assert costs.lookup_seconds_per_key == 0


@pytest.mark.parametrize("rows", [0, 1, 3, 250, 20_000])
def test_real_costs_are_positive(execute: Execute, open_relation: Open, rows: int) -> None:
    execute(f"CREATE TABLE r (k bigint PRIMARY KEY); INSERT INTO r SELECT generate_series(1, {rows}); ANALYZE r")
    relation = open_relation("public.r", {"integer": "k"}, {"k": "k"}, page_rows=10)
    costs = measure_access(relation)
    assert costs.page_read_seconds > 0
    assert costs.lookup_overhead_seconds > 0
    assert costs.lookup_seconds_per_key >= 0
    assert_sensible(measure_disk(relation))


def assert_sensible(measured: DiskMeasurement) -> None:
    """All costs are there, and reading more never costs less."""
    costs = measured.costs
    assert measured.page_reads
    assert all(read.seconds > 0 for read in measured.page_reads)
    for value in (costs.seek_seconds, costs.lookup_overhead_seconds, costs.lookup_seconds_per_key):
        assert 0 <= value < math.inf
    assert costs.lookup_overhead_seconds > 0
    assert 0 < costs.bytes_per_second < math.inf
    seconds = [costs.page_read_seconds(1 << power) for power in range(8, 26)]
    assert seconds[0] > 0
    assert seconds == sorted(seconds)
    assert seconds[-1] > seconds[0]


@pytest.mark.parametrize("profile", [HARD_DISK, SOLID_STATE_DISK])
def test_the_profile_of_a_virtual_disk_is_found_out(profile: DiskProfile) -> None:
    clock = VirtualClock()
    relation = VirtualRelation(10_000_000, VirtualDisk(profile, clock), tuple_bytes=128, page_rows=32)
    costs = measure_disk(relation, clock).costs
    assert costs.seek_seconds == pytest.approx(profile.seek_seconds, rel=1e-6)
    assert costs.bytes_per_second == pytest.approx(profile.bytes_per_second, rel=1e-6)
    assert costs.lookup_overhead_seconds == pytest.approx(profile.seconds(128))
    assert costs.lookup_seconds_per_key == pytest.approx(profile.seconds(128))
    for rows in (32, 500 * 32, 100_000 * 32):
        assert costs.page_read_seconds(rows * 128) == pytest.approx(profile.seconds(rows * 128), rel=1e-6)


@pytest.mark.parametrize("rows", [1, 3, 50, 30_000])
def test_a_direct_file_has_costs(tmp_path: Path, rows: int) -> None:
    relation = open_direct_file(
        write(tmp_path / "r", range(rows), 120, index_rows=20, chunk_rows=10_000), page_rows=500
    )
    measured = measure_disk(relation)
    assert_sensible(measured)
    assert [read.page_rows for read in measured.page_reads] == sorted(read.page_rows for read in measured.page_reads)
    if rows == 30_000:
        assert measured.page_reads[0].page_bytes < 8 << 10
        assert measured.page_reads[-1].page_bytes > 512 << 10
        assert measured.costs.page_read_seconds(1 << 20) > measured.costs.page_read_seconds(4 << 10)


def test_one_stall_does_not_spoil_the_mean_but_regular_ones_count() -> None:
    assert median_of_means([1.0] * 12 + [500.0] + [1.0] * 12) == 1.0
    assert median_of_means([1.0, 1.0, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0, 9.0]) == 5.0
    assert median_of_means([3.0]) == 3.0
