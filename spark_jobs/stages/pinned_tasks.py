"""Tasks that run in a Python worker of their own, batch after batch: what it holds in memory stays at hand.

Spark keeps idle Python workers by the environment that they were started with. A task whose environment names its
pipeline and bucket gets the worker that had the bucket's last task, where that still lives: Spark ends idle ones after
a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from pyspark import RDD, SparkContext

from spark_jobs.stages.exchange import Parcel, by_owner, owner_itself

_VARIABLE = "FRESHET_BUCKET"

Made = TypeVar("Made")
Task = Callable[[int, Iterable[bytes]], Iterator[Made]]
"""Makes something of the parcels that a bucket got; given the bucket's number."""


def pinned_over_parcels(
    spark: SparkContext, pipeline: str, parcels: Sequence[Parcel], buckets: int, task: Task[Made]
) -> RDD[Made]:
    """One task for each bucket over parcels that are at the driver."""
    packed = by_owner(parcels)

    def of(bucket: int) -> RDD[Made]:
        pinned = _pinned(spark, pipeline, bucket)
        if bucket in packed:
            return pinned.parallelize(packed[bucket], 1).mapPartitions(lambda arrived: task(bucket, arrived))
        # Of a range nothing is sent: a worker that leaves input unread is ended.
        return pinned.parallelize(range(1), 1).mapPartitions(lambda _: task(bucket, ()))

    return spark.union([of(bucket) for bucket in range(buckets)])


def pinned_over_shuffle(
    spark: SparkContext, pipeline: str, parcels: RDD[Parcel], buckets: int, task: Task[Made]
) -> RDD[Made]:
    """One task for each bucket over parcels that Spark's shuffle brings to it."""
    shuffled: RDD[Any] = parcels.partitionBy(buckets, owner_itself)

    def of(bucket: int) -> RDD[Made]:
        return _partition(_pinned(spark, pipeline, bucket), shuffled, bucket).mapPartitions(
            lambda arrived: task(bucket, (tuples for _, tuples in arrived))
        )

    return spark.union([of(bucket) for bucket in range(buckets)])


def _pinned(spark: SparkContext, pipeline: str, bucket: int) -> SparkContext:
    """The context with the environment of a bucket's tasks. Its own stays as it is: other threads make tasks, too."""
    pinned: SparkContext = object.__new__(SparkContext)  # to copy it is forbidden
    pinned.__dict__ = {**spark.__dict__, "environment": {**spark.environment, _VARIABLE: f"{pipeline} {bucket}"}}
    return pinned


def _partition(spark: SparkContext, rdd: RDD[Any], number: int) -> RDD[Any]:
    """One partition of an RDD."""
    jvm = spark._jvm
    assert jvm is not None
    # To Scala a sequence of booleans is a function from numbers to booleans: it says which partitions to keep.
    kept = jvm.PythonUtils.toSeq([each == number for each in range(rdd.getNumPartitions())])
    pruned = jvm.org.apache.spark.rdd.PartitionPruningRDD.create(rdd._jrdd.rdd(), kept)
    return RDD(pruned.toJavaRDD(), spark, rdd._jrdd_deserializer)
