"""Predicted service rates beside measured ones, on the disk of this machine, with whatever else goes on there."""

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from spark_jobs.experiments.calibration.disk_calibration import measure_disk
from spark_jobs.experiments.calibration.processor_calibration import measure_processor
from spark_jobs.experiments.direct_file.direct_relation import DirectRelation
from spark_jobs.experiments.semi_stream.join_run import SaturatedRun
from spark_jobs.experiments.semi_stream.real_disks import direct_relation
from spark_jobs.joins.semi_stream import create
from spark_jobs.joins.semi_stream.theory.popularity import ZipfStream
from spark_jobs.joins.semi_stream.theory.prediction import predict
from spark_jobs.joins.semi_stream.theory.setting import DiskCosts, ProcessorCosts, Setting
from spark_jobs.workload.zipf import ZipfKeys

ROWS = 500_000
TUPLE_BYTES = 120
PAGE_ROWS = 540
MEMORY_BYTES = ROWS * TUPLE_BYTES // 20
ROUNDS = 3
# On a quiet machine ratios are within 0.8 and 1.25. Here others may use disk and processor at any moment.
LEAST, MOST = 0.4, 2.5


@pytest.fixture(scope="module")
def relation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DirectRelation]:
    folder: Path = tmp_path_factory.mktemp("disk")
    relation = direct_relation(folder, ROWS, TUPLE_BYTES, PAGE_ROWS)
    yield relation
    relation.close()


@pytest.fixture(scope="module")
def processor() -> ProcessorCosts:
    return measure_processor(
        waiting_tuples=MEMORY_BYTES // 43,
        page_rows=PAGE_ROWS,
        page_count=-(-ROWS // PAGE_ROWS),
        cached_tuples=MEMORY_BYTES // 1_300,
        tuple_bytes=TUPLE_BYTES,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("exponent", "shuffled"), [(0.0, True), (1.0, True), (1.0, False)])
@pytest.mark.parametrize(
    ("algorithm", "tuples"),
    [
        ("index_nested_loop", 1_000),
        ("batched_index_nested_loop", 20_000),
        ("hybrid_join", 200_000),
        ("longest_wait_join", 400_000),
        ("mesh_join", 200_000),
        ("early_release_mesh_join", 200_000),
        ("semi_streamed_index_join", 400_000),
        ("cached_hybrid_join", 400_000),
        ("cached_early_release_mesh_join", 400_000),
    ],
)
def test_rates_on_a_real_disk_are_about_as_predicted(
    relation: DirectRelation,
    processor: ProcessorCosts,
    algorithm: str,
    tuples: int,
    exponent: float,
    shuffled: bool,
) -> None:
    popularity = ZipfStream(ROWS, exponent, shuffled)

    def predicted(disk: DiskCosts) -> float:
        setting = Setting(ROWS, TUPLE_BYTES, PAGE_ROWS, MEMORY_BYTES, disk, processor)
        return predict(algorithm, setting, popularity).service_rate

    keys = ZipfKeys(np.arange(ROWS), exponent, shuffle_seed=[1] if shuffled else None)
    random = np.random.default_rng(2)
    join = create(algorithm, relation, MEMORY_BYTES)
    run = SaturatedRun(join, relation, lambda count: keys.draw(count, random), time.perf_counter, None)
    run.measure(3 * tuples)
    ratios = []
    for _ in range(ROUNDS):  # reads before and after, as a disk may be busier now than a second ago
        before = measure_disk(relation).costs
        measured = run.measure(tuples).service_rate
        ratios.append((predicted(before) + predicted(measure_disk(relation).costs)) / 2 / measured)
    assert LEAST < median(ratios) < MOST, ratios
