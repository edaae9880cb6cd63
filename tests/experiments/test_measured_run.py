"""Measured runs: their counts and times add up, for a saturated stream and for one that comes at its own rate."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.errors import WorkloadError
from spark_jobs.experiments.semi_stream.join_run import SaturatedRun, measure_saturated, measure_with_arrivals
from spark_jobs.experiments.semi_stream.run_measurement import WaitingTuples
from spark_jobs.experiments.semi_stream.workloads import Workload, zipf
from spark_jobs.experiments.virtual_relation import (
    FREE_DISK,
    HARD_DISK,
    DiskProfile,
    VirtualClock,
    VirtualDisk,
    VirtualRelation,
)
from spark_jobs.joins.semi_stream import create
from spark_jobs.joins.semi_stream.base import SemiStreamJoin
from spark_jobs.joins.semi_stream.mesh_join import MeshJoin
from spark_jobs.joins.semi_stream.theory.setting import FREE_PROCESSOR, PAPER_ERA
from spark_jobs.workload.bursts import bursty_arrivals, steady_arrivals

KEYS = 20_000
UNIFORM = zipf(KEYS, 0.0, sorted_by_rank=True)
SKEWED = zipf(KEYS, 1.0, sorted_by_rank=False)
PAGE_ROWS = 200
MEMORY = 200_000


def open_relation(profile: DiskProfile = HARD_DISK) -> tuple[VirtualClock, VirtualRelation]:
    clock = VirtualClock()
    return clock, VirtualRelation(KEYS, VirtualDisk(profile, clock), page_rows=PAGE_ROWS)


def saturated(name: str, workload: Workload, profile: DiskProfile = HARD_DISK) -> tuple[SemiStreamJoin, SaturatedRun]:
    clock, relation = open_relation(profile)
    join = create(name, relation, MEMORY)
    return join, SaturatedRun(join, relation, workload.stream(seed=1), clock, PAPER_ERA)


@pytest.mark.parametrize("name", ["hybrid_join", "cached_hybrid_join", "mesh_join", "batched_index_nested_loop"])
def test_a_measurement_counts_what_the_join_counts(name: str) -> None:
    join, run = saturated(name, SKEWED)
    first, second = run.measure(20_000), run.measure(20_000)
    counts = join.statistics
    assert first.settled + second.settled == counts.matched
    assert first.accesses + second.accesses == counts.seeks
    assert first.bytes_read + second.bytes_read == counts.bytes_read
    assert second.settled >= 20_000


def test_a_saturated_queue_obeys_littles_law() -> None:
    _, run = saturated("hybrid_join", UNIFORM)
    run.measure(50_000)
    measured = run.measure(100_000)
    in_queue_on_average = measured.mean_queue - measured.tuples_per_access / 2
    assert measured.mean_processing * measured.service_rate == pytest.approx(in_queue_on_average, rel=0.1)
    assert measured.mean_waiting == 0


def test_time_is_what_the_disk_and_the_processor_take() -> None:
    _, run = saturated("hybrid_join", UNIFORM)
    measured = run.measure(50_000)
    reading = measured.pages_read * HARD_DISK.seconds(PAGE_ROWS * 120)
    work = measured.probes * PAPER_ERA.probe + measured.settled * PAPER_ERA.per_joined_tuple
    assert measured.seconds == pytest.approx(reading + work)


def test_a_tuple_that_the_front_stage_settles_is_charged_neither_coming_nor_going() -> None:
    _, run = saturated("cached_hybrid_join", SKEWED, FREE_DISK)
    run.measure(50_000)
    measured = run.measure(50_000)
    hits = measured.front_stage_hits
    assert measured.hit_ratio > 0.3
    most = measured.probes * PAPER_ERA.probe + (measured.settled - hits) * PAPER_ERA.per_joined_tuple
    most += hits * (PAPER_ERA.read + PAPER_ERA.emit)
    assert measured.seconds == pytest.approx(most, rel=0.02)


def test_each_tuple_waits_its_turn_outside_an_index_nested_loop_join() -> None:
    """Arrivals at half the rate of lookups never wait; at twice the rate half of them are still waiting."""
    lookups_per_second = 1 / HARD_DISK.seconds(120)

    def waiting(rate: float) -> float:
        clock, relation = open_relation()
        join = create("index_nested_loop", relation, MEMORY)
        arrivals = steady_arrivals(rate)
        return measure_with_arrivals(
            join,
            relation,
            UNIFORM.stream(seed=1),
            arrivals,
            clock,
            FREE_PROCESSOR,
            warm_up=0,
            measured=1000,
            most_pending=1,
        ).mean_waiting

    assert waiting(0.5 * lookups_per_second) == pytest.approx(0, abs=1e-9)
    # The n-th comes at n / 2 and begins at n, in units of a lookup.
    assert waiting(2 * lookups_per_second) == pytest.approx(1000 / 4 / lookups_per_second, rel=0.1)


def test_mesh_join_waits_for_its_chunk_whether_or_not_the_run_knows_how_long() -> None:
    """Standing still until the whole chunk has come gives the same times as being woken by each tuple."""

    def measured(chunk: int) -> tuple[float, float]:
        clock, relation = open_relation()
        join = MeshJoin(relation, MEMORY)
        run = measure_with_arrivals(
            join,
            relation,
            UNIFORM.stream(seed=1),
            steady_arrivals(1000),
            clock,
            PAPER_ERA,
            warm_up=8_000,
            measured=8_000,
            chunk=chunk,
        )
        return run.mean_waiting, run.mean_processing

    _, relation = open_relation()
    chunk = MeshJoin(relation, MEMORY).capacity // relation.page_count
    assert chunk > 10
    assert measured(chunk) == pytest.approx(measured(1), rel=0.02)
    cycle = relation.page_count * chunk / 1000
    assert measured(chunk)[0] == pytest.approx(cycle / 2, rel=0.15)


def test_bursts_wait_longer_than_a_steady_stream_of_the_same_rate() -> None:
    def waiting(arrivals: object) -> float:
        clock, relation = open_relation()
        join = create("hybrid_join", relation, MEMORY)
        run = measure_with_arrivals(
            join,
            relation,
            SKEWED.stream(seed=1),
            arrivals,
            clock,
            PAPER_ERA,
            warm_up=0,
            measured=20_000,  # type: ignore[arg-type]
        )
        return run.mean_stay

    assert waiting(bursty_arrivals(400, seed=3)) > waiting(steady_arrivals(400))


def test_processor_costs_need_a_virtual_clock() -> None:
    _, relation = open_relation()
    join = create("hybrid_join", relation, MEMORY)
    with pytest.raises(WorkloadError, match="VirtualClock only"):
        measure_saturated(join, relation, UNIFORM.stream(seed=1), lambda: 0.0, PAPER_ERA, warm_up=0, measured=1)


def test_ids_are_recycled_and_unique_among_those_that_wait() -> None:
    random = np.random.default_rng(1)
    waiting: dict[int, float] = {}
    tuples = WaitingTuples(columns=1)
    for moment in range(200):
        ids = tuples.enter(int(random.integers(0, 300)), (float(moment),)).tolist()
        assert not waiting.keys() & set(ids)
        waiting |= dict.fromkeys(ids, float(moment))
        gone = random.choice(sorted(waiting), int(random.integers(0, len(waiting) + 1)), replace=False)
        assert tuples.leave(gone) == [sum(waiting.pop(id_) for id_ in gone.tolist())]
        assert max(waiting, default=0) < 1 << 16
