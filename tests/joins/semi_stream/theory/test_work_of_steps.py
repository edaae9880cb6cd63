"""What the cost models charge besides reading and tuples: steps, upkeep, another hash table, reads that are shared."""

from dataclasses import replace

import pytest

from spark_jobs.joins.semi_stream.theory.popularity import ZipfStream
from spark_jobs.joins.semi_stream.theory.prediction import BACK_STAGES, CACHED, Prediction, predict
from spark_jobs.joins.semi_stream.theory.setting import FREE_PROCESSOR, PAPER_ERA, DiskCosts, ProcessorCosts, Setting

ROWS = 1_000_000
DISK = DiskCosts(
    seek_seconds=1e-4, bytes_per_second=1e9, lookup_overhead_seconds=1e-4, lookup_seconds_per_key=1e-4, lookup_rows=20
)
MEMORY = 10_000_000
WITH_MULTIMAP = ("early_release_mesh_join", "mesh_join", "r_mesh_join")


def predicted(
    algorithm: str,
    processor: ProcessorCosts = FREE_PROCESSOR,
    disk: DiskCosts = DISK,
    *,
    exponent: float = 1.0,
    shuffled: bool = True,
) -> Prediction:
    return predict(algorithm, Setting(ROWS, 120, 500, MEMORY, disk, processor), ZipfStream(ROWS, exponent, shuffled))


def added_seconds(algorithm: str, processor: ProcessorCosts) -> float:
    """What a processor that is not free adds to a stream tuple."""
    return 1 / predicted(algorithm, processor).service_rate - 1 / predicted(algorithm).service_rate


@pytest.mark.parametrize("algorithm", sorted(BACK_STAGES))
def test_a_step_costs_once_for_all_that_it_settles(algorithm: str) -> None:
    step = replace(FREE_PROCESSOR, per_access=1e-3)
    assert added_seconds(algorithm, step) == pytest.approx(1e-3 / predicted(algorithm).matches_per_access)


@pytest.mark.parametrize("algorithm", ["hybrid_join", "early_release_mesh_join", "index_nested_loop"])
def test_upkeep_is_paid_for_what_the_front_stage_misses(algorithm: str) -> None:
    back = predicted(CACHED + algorithm)
    missed = 1 - back.hit_ratio
    assert 0.2 < missed < 0.8
    per_miss = replace(FREE_PROCESSOR, upkeep_per_miss=1e-3)
    assert added_seconds(CACHED + algorithm, per_miss) == pytest.approx(1e-3 * missed)
    per_access = replace(FREE_PROCESSOR, upkeep_per_access=1e-3)
    assert added_seconds(CACHED + algorithm, per_access) == pytest.approx(1e-3 * missed / back.matches_per_access)
    assert added_seconds(algorithm, replace(per_miss, upkeep_per_access=1e-3)) == 0


@pytest.mark.parametrize("algorithm", sorted(BACK_STAGES))
def test_only_what_finds_tuples_by_key_alone_pays_for_the_multimap(algorithm: str) -> None:
    dearer = replace(PAPER_ERA, probe=1e-6, evict=1e-5, per_access=1e-3)
    mixed = predicted(algorithm, replace(PAPER_ERA, multimap=dearer)).service_rate
    assert mixed == predicted(algorithm, dearer if algorithm in WITH_MULTIMAP else PAPER_ERA).service_rate


def test_a_batch_reads_once_for_popular_keys_that_lie_side_by_side() -> None:
    each_alone = replace(DISK, lookup_rows=1)
    algorithm = "batched_index_nested_loop"

    def gain(exponent: float, shuffled: bool) -> float:
        alone, shared = (predicted(algorithm, disk=d, exponent=exponent, shuffled=shuffled) for d in (each_alone, DISK))
        assert alone.matches_per_access == pytest.approx(shared.matches_per_access)
        return shared.service_rate / alone.service_rate

    assert 1 <= gain(0.0, shuffled=True) < 1.1  # 8,192 keys on 50,000 places
    assert gain(1.0, shuffled=True) < 1.3
    assert gain(1.0, shuffled=False) > 1.4
