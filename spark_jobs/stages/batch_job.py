"""The way of a batch's tuples through Spark's tasks: front stage, then for each lookup an exchange and a back stage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from pyspark import RDD, SparkContext

from spark_jobs.stages.back_task import back_task
from spark_jobs.stages.batch_context import BatchContext, TaskReport
from spark_jobs.stages.exchange import Parcel
from spark_jobs.stages.front_task import Read, front_task

Report = Callable[[TaskReport], Any]


def settle(
    spark: SparkContext,
    tasks: Sequence[Sequence[Hashable]],
    read: Read,
    batch: BatchContext,
    report: Report,
    *,
    shuffle: bool,
) -> None:
    """Send tuples through the front stage and all back stages; each task loads what it settles.

    Args:
        spark: runs the tasks.
        tasks: the pieces that each front stage task reads.
        read: reads a piece.
        batch: the batch.
        report: takes the tasks' reports.
        shuffle: how misses travel: by Spark's shuffle, which any number of them may take; or, where they are few,
            by way of the driver, which spares the second stage of a batch whose tuples were all hits.
    """
    if not tasks:
        return

    def front(number: int, _: Iterable[Any]) -> Iterator[Parcel]:
        return front_task(batch, tasks[number], read, report)

    waiting = _tasks(spark, len(tasks)).mapPartitionsWithIndex(front)
    if shuffle:
        for plan in batch.lookups:
            waiting = waiting.partitionBy(batch.parts, _owner).mapPartitions(_shuffled(batch, plan.position, report))
    unsettled = waiting.collect()
    if not shuffle:
        for plan in batch.lookups:
            if unsettled:
                unsettled = _carried(spark, unsettled, batch, plan.position, report)
    if unsettled:
        raise AssertionError(f"{len(unsettled)} parcels of {batch.destination} passed all lookups unsettled")


def _tasks(spark: SparkContext, count: int) -> RDD[int]:
    return spark.parallelize(range(count), count)


def _owner(owner: int) -> int:
    return owner


def _shuffled(
    batch: BatchContext, lookup: int, report: Report
) -> Callable[[Iterable[tuple[int, bytes]]], Iterator[Parcel]]:
    def back(parcels: Iterable[tuple[int, bytes]]) -> Iterator[Parcel]:
        return back_task(batch, lookup, (tuples for _, tuples in parcels), report)

    return back


def _carried(
    spark: SparkContext, parcels: Sequence[Parcel], batch: BatchContext, lookup: int, report: Report
) -> list[Parcel]:
    by_owner: dict[int, list[bytes]] = defaultdict(list)
    for owner, tuples in parcels:
        by_owner[owner].append(tuples)
    packed = list(by_owner.values())

    def back(number: int, _: Iterable[Any]) -> Iterator[Parcel]:
        return back_task(batch, lookup, packed[number], report)

    return _tasks(spark, len(packed)).mapPartitionsWithIndex(back).collect()
