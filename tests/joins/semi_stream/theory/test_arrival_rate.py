"""How soon tuples of a slow stream are settled, against runs with arrivals."""

from __future__ import annotations

import pytest

from spark_jobs.experiments.semi_stream.join_run import measure_with_arrivals
from spark_jobs.experiments.semi_stream.workloads import zipf
from spark_jobs.experiments.virtual_relation import HARD_DISK, VirtualClock, VirtualDisk, VirtualRelation
from spark_jobs.joins.semi_stream import create
from spark_jobs.joins.semi_stream.theory.choice import settling_seconds
from spark_jobs.joins.semi_stream.theory.prediction import predict
from spark_jobs.joins.semi_stream.theory.setting import PAPER_ERA
from spark_jobs.workload.bursts import steady_arrivals
from tests.joins.semi_stream.theory.virtual_run import TUPLE_BYTES, Scene

SCENE = Scene(50_000, 1, True, 100, 0.05)


@pytest.mark.parametrize(
    ("algorithm", "rate"),
    [("hybrid_join", 400), ("early_release_mesh_join", 400), ("cached_hybrid_join", 800), ("mesh_join", 400)],
)
def test_settling_time(algorithm: str, rate: float) -> None:
    clock = VirtualClock()
    disk = VirtualDisk(HARD_DISK, clock)
    relation = VirtualRelation(SCENE.row_count, disk, tuple_bytes=TUPLE_BYTES, page_rows=SCENE.page_rows)
    measured = measure_with_arrivals(
        create(algorithm, relation, SCENE.memory_bytes),
        relation,
        zipf(SCENE.row_count, 1, sorted_by_rank=False).stream(seed=1),
        steady_arrivals(rate),
        clock,
        PAPER_ERA,
        warm_up=40_000,
        measured=40_000,
    )
    prediction = predict(algorithm, SCENE.setting, SCENE.stream)
    assert prediction.service_rate > 1.15 * rate
    predicted = settling_seconds(prediction, SCENE.setting, SCENE.stream, rate)
    assert predicted == pytest.approx(measured.mean_processing + measured.mean_waiting, rel=0.35)
