"""What was loaded lately is known to all workers of a host, by pipeline, and forgotten in its time."""

import os

import numpy as np

from spark_jobs.columns.hashing import hash_int64
from spark_jobs.loading.recent_ids import RecentIds


def test_each_process_finds_what_another_one_has_loaded() -> None:
    recent, ids = RecentIds(), hash_int64(np.arange(1000))
    worker = os.fork()
    if not worker:
        recent.add("orders", ids)
        os._exit(0)
    assert os.waitpid(worker, 0)[1] == 0
    assert recent.among("orders", ids).all()
    assert not recent.among("orders", hash_int64(np.arange(10**6, 10**6 + 1000))).any()


def test_the_same_ids_of_another_pipeline_are_others() -> None:
    recent, ids = RecentIds(), hash_int64(np.arange(1000))
    recent.add("orders", ids)
    assert not recent.among("returns", ids).any()


def test_the_latest_are_remembered_and_the_oldest_are_forgotten() -> None:
    recent = RecentIds(memory=1 << 16)  # each half bears 24,576
    loaded = hash_int64(np.arange(200_000)).reshape(-1, 1000)
    for ids in loaded:
        recent.add("orders", ids)
        assert recent.among("orders", ids).all()
    assert recent.among("orders", loaded[-24:].reshape(-1)).all()
    assert recent.among("orders", loaded[:100].reshape(-1)).mean() < 0.03
