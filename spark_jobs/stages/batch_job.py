"""The way of a batch's tuples through Spark's tasks: front stage, then for each lookup an exchange and a back stage.

Tuples of several streams first go to the task of their key's bucket. It joins them, or makes facts of their parts and
fills in the others; results and new facts go on as above.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from pyspark import RDD, SparkContext

from spark_jobs.source.landed_streams import StreamSlice
from spark_jobs.stages.accumulate_task import accumulate_task
from spark_jobs.stages.back_task import back_task
from spark_jobs.stages.batch_context import BatchContext, TaskReport
from spark_jobs.stages.collect_task import collect_task
from spark_jobs.stages.exchange import Parcel, by_owner, owner_itself
from spark_jobs.stages.front_task import Read, front_task
from spark_jobs.stages.join_task import join_task
from spark_jobs.stages.pinned_tasks import pinned_over_parcels, pinned_over_shuffle
from spark_jobs.stages.stream_plan import JoinPlan, StreamPlan

Report = Callable[[TaskReport], Any]


def front_stage(
    spark: SparkContext, tasks: Sequence[Sequence[Hashable]], read: Read, batch: BatchContext, report: Report
) -> RDD[Parcel]:
    """Tasks that read tuples and take them through the front stage.

    Args:
        spark: runs the tasks.
        tasks: the pieces that each task reads; none where all ranges were given up.
        read: reads a piece.
        batch: the batch.
        report: takes the tasks' reports.

    Returns:
        the tuples that are to be settled still.
    """

    def front(number: int, _: Iterable[Any]) -> Iterator[Parcel]:
        return front_task(batch, tasks[number], read, report)

    if not tasks:
        return spark.emptyRDD()
    return _tasks(spark, len(tasks)).mapPartitionsWithIndex(front)


def joined(
    spark: SparkContext,
    tasks: Sequence[Sequence[StreamSlice]],
    plan: JoinPlan,
    batch: BatchContext,
    report: Report,
    *,
    shuffle: bool,
) -> RDD[Parcel]:
    """Tasks that read tuples of several streams and join them, bucket by bucket, and then as of `front_stage`.

    Args:
        spark: runs the tasks.
        tasks: the pieces that each task of the first stage reads.
        plan: how they are joined.
        batch: the batch.
        report: takes the tasks' reports.
        shuffle: how tuples travel to their buckets, as of `settle`. If not, the first stage has run on return.
    """

    def collect(number: int, _: Iterable[Any]) -> Iterator[Parcel]:
        return collect_task(batch, plan.streams, plan.buckets, tasks[number], report)

    def join(bucket: int, parcels: Iterable[bytes]) -> Iterator[Parcel]:
        return join_task(batch, plan, bucket, parcels, report)

    if not tasks:
        return pinned_over_parcels(spark, batch.event.pipeline, [], plan.buckets, join)
    collected = _tasks(spark, len(tasks)).mapPartitionsWithIndex(collect)
    if shuffle:
        return pinned_over_shuffle(spark, batch.event.pipeline, collected, plan.buckets, join)
    return pinned_over_parcels(spark, batch.event.pipeline, collected.collect(), plan.buckets, join)


def accumulated(
    spark: SparkContext,
    tasks: Sequence[Sequence[StreamSlice]],
    streams: Sequence[StreamPlan],
    batch: BatchContext,
    report: Report,
    *,
    shuffle: bool,
) -> RDD[Parcel]:
    """Tasks that read tuples of several streams, and load them as parts of accumulating facts; as of `front_stage`.

    Args:
        spark: runs the tasks.
        tasks: the pieces that each task of the first stage reads.
        streams: of the pipeline, in its order.
        batch: the batch; its parts are the buckets of keys.
        report: takes the tasks' reports.
        shuffle: how tuples travel to their buckets, as of `settle`. If not, the first stage has run on return.
    """

    def collect(number: int, _: Iterable[Any]) -> Iterator[Parcel]:
        return collect_task(batch, streams, batch.parts, tasks[number], report)

    def accumulate(bucket: int, parcels: Iterable[bytes]) -> Iterator[Parcel]:
        return accumulate_task(batch, bucket, parcels, report)

    if not tasks:
        return spark.emptyRDD()
    collected = _tasks(spark, len(tasks)).mapPartitionsWithIndex(collect)
    if shuffle:
        shuffled: RDD[Any] = collected.partitionBy(batch.parts, owner_itself)
        return shuffled.mapPartitionsWithIndex(
            lambda bucket, arrived: accumulate(bucket, (tuples for _, tuples in arrived))
        )
    packed = list(by_owner(collected.collect()).values())
    if not packed:
        return spark.emptyRDD()
    return _over(spark, packed).mapPartitionsWithIndex(lambda number, given: accumulate(number, *given))


def settle(waiting: RDD[Parcel], batch: BatchContext, report: Report, *, shuffle: bool) -> None:
    """Take tuples through the front stage, as these tasks do, and all back stages; each task loads what it settles.

    Args:
        waiting: the tasks of the front stage.
        batch: the batch.
        report: takes the tasks' reports.
        shuffle: how misses travel: by Spark's shuffle, which any number of them may take; or, where they are few,
            by way of the driver, which spares the second stage of a batch whose tuples were all hits. If a single task
            has them all, they stay there, unless R may be read at a limited rate only, which is shared by tasks.
    """
    stay = waiting.getNumPartitions() == 1 and all(plan.read_limit is None for plan in batch.lookups)
    if shuffle or stay:
        for plan in batch.lookups:
            arrived = waiting.partitionBy(batch.parts, owner_itself) if shuffle else waiting
            waiting = arrived.mapPartitions(_arrived(batch, plan.position, report))
    unsettled = waiting.collect()
    if not shuffle and not stay:
        for plan in batch.lookups:
            if unsettled:
                unsettled = _carried(waiting.context, unsettled, batch, plan.position, report)
    if unsettled:
        raise AssertionError(f"{len(unsettled)} parcels of {batch.destination} passed all lookups unsettled")


def _tasks(spark: SparkContext, count: int) -> RDD[int]:
    return spark.parallelize(range(count), count)


def _arrived(
    batch: BatchContext, lookup: int, report: Report
) -> Callable[[Iterable[tuple[int, bytes]]], Iterator[Parcel]]:
    def back(parcels: Iterable[tuple[int, bytes]]) -> Iterator[Parcel]:
        return back_task(batch, lookup, (tuples for _, tuples in parcels), report)

    return back


def _carried(
    spark: SparkContext, parcels: Sequence[Parcel], batch: BatchContext, lookup: int, report: Report
) -> list[Parcel]:
    packed = list(by_owner(parcels).values())

    def back(given: Iterable[list[bytes]]) -> Iterator[Parcel]:
        (own,) = given
        return back_task(batch, lookup, own, report)

    return _over(spark, packed).mapPartitions(back).collect()


def _over(spark: SparkContext, packed: Sequence[list[bytes]]) -> RDD[list[bytes]]:
    """A task for each list of parcels. As data, not within the task's closure: Spark keeps a large closure on disk."""
    return spark.parallelize(packed, len(packed))
