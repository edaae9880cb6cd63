"""The process that Spark forks its Python workers from (`spark.python.daemon.module`).

It imports what the tasks need, and loads the compiled kernels, before the first fork. A worker then starts with
all of that in memory, shared with the other workers, instead of spending seconds of its first task on it.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
from pyspark.daemon import manager

from spark_jobs.columns.copy_encoding.column_encoder import PostgresType, Target
from spark_jobs.columns.copy_encoding.rows import encode
from spark_jobs.joins.semi_stream.base import Page
from spark_jobs.joins.semi_stream.hot_set import HotSet
from spark_jobs.joins.semi_stream.hybrid_join import HybridJoin
from spark_jobs.optional_imports import do_without_pandas_and_scipy
from spark_jobs.source.files import reading
from spark_jobs.stages import back_task, front_task, warm_up

__all__ = ["back_task", "front_task", "load_kernels", "reading", "spare_what_is_loaded", "warm_up"]


class _OneTuple:
    """The smallest relation there is."""

    page_count = 1
    page_bytes = 64
    tuple_bytes = 8

    def read_page(self, number: int) -> Page:
        return Page(np.array([7]), None, 8)

    def lookup(self, keys: np.ndarray, ids: np.ndarray) -> Page:
        return Page(keys, None, 8)

    def gather(self, parts: Sequence[tuple[None, np.ndarray]]) -> None:
        return None


def load_kernels() -> None:
    """Run the kernels once on next to nothing; compiled code comes from numba's cache where it is there."""
    HotSet.arranged(0, np.array([7]))[0].probe(np.array([7, 8]))
    join = HybridJoin(_OneTuple(), 1 << 20)
    join.push(np.array([7, 8]), np.array([0, 0]), np.array([0, 1]))
    list(join.finish())
    values: list[tuple[str, PostgresType, pa.Array]] = [
        ("a", PostgresType("int8", "bigint"), pa.array([1])),
        ("b", PostgresType("int4", "integer"), pa.array([1], pa.int32())),
        ("c", PostgresType("float8", "double precision"), pa.array([1.5])),
        ("d", PostgresType("numeric", "numeric(15,2)", precision=15, scale=2), pa.array([Decimal("1.50")])),
        ("e", PostgresType("text", "text"), pa.array(["x"])),
        ("f", PostgresType("timestamptz", "timestamptz", fraction=6), pa.array([datetime.now(UTC)])),
    ]
    table = pa.table({name: array for name, _, array in values})
    targets = [Target(name, name, type_, True) for name, type_, _ in values]
    encode(table, targets).rows.stream().read(1 << 16)


def spare_what_is_loaded() -> None:
    """Keep the garbage collector from all that is in memory now.

    A worker collects garbage after each of its tasks. Modules and compiled code are some hundred thousand objects that
    never become garbage: to visit them takes longer than the task of a small batch, and copies the pages that workers
    share.
    """
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    do_without_pandas_and_scipy()
    load_kernels()
    spare_what_is_loaded()
    manager()
