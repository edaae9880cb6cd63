"""Which failures of a chunk are blamed on its tuples: Spark's own, and the warehouse's, are not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from spark_jobs.errors import SchemaMismatchError
from spark_jobs.reprocessing.chunk_failure import tuples_may_be_to_blame
from tests.spark.conftest import spark

__all__ = ["spark"]


def error_of(action: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one it is, is Spark's business
        action()
    return caught.value


def error_of_task(spark: Any, fault: Callable[[], None]) -> Exception:
    """What the driver hears of a task that fails so."""

    def task(numbers: Iterable[int]) -> Iterator[int]:
        for number in numbers:
            fault()
            yield number

    return error_of(spark.parallelize(range(4), 2).mapPartitions(task).collect)


def raising(error: Exception) -> Callable[[], None]:
    def fault() -> None:
        raise error

    return fault


def test_an_error_that_a_task_of_ours_raises_may_be_the_tuples(spark: Any) -> None:
    assert tuples_may_be_to_blame(error_of_task(spark, raising(ValueError("poison"))))
    assert tuples_may_be_to_blame(error_of_task(spark, raising(psycopg2.DataError("poison"))))


def test_so_may_a_worker_that_is_lost(spark: Any) -> None:
    assert tuples_may_be_to_blame(error_of_task(spark, lambda: os._exit(1)))


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        psycopg2.ProgrammingError("no such table"),
        SchemaMismatchError("no such column"),
    ],
)
def test_what_no_tuple_would_escape_is_none_of_theirs(spark: Any, error: Exception) -> None:
    assert not tuples_may_be_to_blame(error_of_task(spark, raising(error)))


def test_an_error_of_sparks_own_is_not_the_tuples(spark: Any, tmp_path: Path) -> None:
    within_spark = spark.textFile(str(tmp_path / "nowhere"))
    assert not tuples_may_be_to_blame(error_of(within_spark.collect))


def test_a_disk_that_spark_cannot_write_to_is_not_the_tuples(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    error = error_of(lambda: spark.parallelize(range(4), 2).saveAsTextFile(str(tmp_path / "file" / "within")))
    assert not tuples_may_be_to_blame(error)
