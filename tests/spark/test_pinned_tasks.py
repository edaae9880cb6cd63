"""Tasks of a bucket come to the same worker, however their parcels come to them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from spark_jobs.stages.exchange import Parcel
from spark_jobs.stages.pinned_tasks import pinned_over_parcels, pinned_over_shuffle

PARCELS = [Parcel(0, b"a"), Parcel(1, b"b"), Parcel(0, b"c")]


def told(bucket: int, parcels: Iterable[bytes]) -> Iterator[tuple[int, int, bytes]]:
    yield bucket, os.getpid(), b"".join(sorted(parcels))


def test_a_bucket_has_one_worker_and_gets_its_own_parcels(spark: Any) -> None:
    runs = []
    for _ in range(2):
        runs.append(pinned_over_parcels(spark, "bids", PARCELS, 2, told).collect())
        runs.append(pinned_over_shuffle(spark, "bids", spark.parallelize(PARCELS, 2), 2, told).collect())
    assert all(run == runs[0] for run in runs)
    assert [(bucket, content) for bucket, _, content in runs[0]] == [(0, b"ac"), (1, b"b")]
    assert runs[0][0][1] != runs[0][1][1], "each has its own"
    others = pinned_over_parcels(spark, "clicks", PARCELS, 2, told).collect()
    assert not {worker for _, worker, _ in runs[0]} & {worker for _, worker, _ in others}, "nor do two joins share them"
    assert "FRESHET_BUCKET" not in spark.environment
