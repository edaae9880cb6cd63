"""The Python workers: what they have in memory when they begin."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pytest


def test_a_workers_garbage_collection_visits_only_what_its_tasks_have_made(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(spark.environment, "FRESHET_WORKER", "new")  # Spark has a worker for each environment

    def objects(_: Iterable[int]) -> Iterator[tuple[int, int]]:
        yield gc.get_freeze_count(), len(gc.get_objects())

    [(spared, visited)] = spark.parallelize([0], 1).mapPartitions(objects).collect()
    assert spared > 10 * visited > 0


def test_workers_have_loaded_what_tasks_need_and_nothing_of_the_driver(spark: Any) -> None:
    def loaded(_: Iterable[int]) -> list[str]:
        return [name for name in sys.modules if name.startswith("spark_jobs.")]

    modules = spark.parallelize([0], 1).mapPartitions(loaded).collect()
    assert "spark_jobs.source.files.reading" in modules
    assert not [name for name in modules if name.startswith("spark_jobs.driver.")]


def test_workers_begin_without_the_libraries_that_others_would_have_them_import(spark: Any) -> None:
    def loaded(_: Iterable[int]) -> list[str]:
        return [name for name in ("pyarrow", "numba", "pandas", "scipy.linalg") if name in sys.modules]

    assert spark.parallelize([0], 1).mapPartitions(loaded).collect() == ["pyarrow", "numba"]
