"""Contenders (b) and (c): Spark's own stream-static join, with its JDBC source and sink."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.experiments.load.data import LoadCase

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DRIVER_PACKAGE = "org.postgresql:postgresql:42.7.4"
BYTES_PER_BATCH = 24 << 20  # as Freshet begins
CORES = os.cpu_count() or 1


def spark_session() -> SparkSession:
    """A session as Spark ships it: adaptive execution on; a heap that holds R, one shuffle partition a core."""
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.appName("bench")
        .master("local[*]")
        .config("spark.driver.memory", "6g")
        .config("spark.jars.packages", DRIVER_PACKAGE)
        .config("spark.sql.shuffle.partitions", CORES)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )


def load_by_spark_join(
    session: SparkSession, case: LoadCase, events: Path, checkpoint: Path, jdbc_url: str, *, cached: bool
) -> list[tuple[float, int]]:
    """Load all events the way Spark's documentation joins a stream with a table.

    Both get what a user would tune: R read by both cores, only the columns that are needed, inserts sent as
    multi-row statements (reWriteBatchedInserts) in batches of 10,000. The cached R is partitioned and sorted by
    the key already, so that no batch shuffles or sorts it again.

    Args:
        session: a session of `spark_session`.
        case: the benchmark's size.
        events: folder of the event files.
        checkpoint: new folder.
        jdbc_url: the warehouse, by JDBC.
        cached: R is kept in memory whole; otherwise each batch reads it anew.

    Returns:
        for each batch the moment of its end in seconds, and its facts.
    """
    options = {"url": jdbc_url, "driver": "org.postgresql.Driver"}

    def relation() -> DataFrame:
        # A range per core. The query leaves the wide column in the database.
        return (
            session.read.format("jdbc")
            .options(**options, dbtable=f"bench.{case.relation}", fetchsize=10_000)
            .options(partitionColumn="key", lowerBound=0, upperBound=case.relation_rows, numPartitions=CORES)
            .load()
            .select("key", "sk")
        )

    kept = relation().repartition(CORES, "key").sortWithinPartitions("key").cache() if cached else None
    if kept is not None:
        kept.count()
    ends: dict[int, float] = {}

    def load(batch: DataFrame, number: int) -> None:
        facts = batch.join(kept if kept is not None else relation(), "key").selectExpr(
            "id AS event_id", "sk AS relation_sk", "quantity", "amount", "at AS happened_at"
        )
        (
            facts.write.format("jdbc")
            .options(**options, dbtable="bench.fact", batchsize=10_000, reWriteBatchedInserts="true")
            .mode("append")
            .save()
        )
        ends[number] = time.perf_counter()

    schema = "id bigint, key bigint, quantity int, amount decimal(15,2), at timestamp"
    stream = session.readStream.schema(schema).option("maxBytesPerTrigger", BYTES_PER_BATCH).parquet(str(events))
    writer = stream.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(load)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    # Counting inside the batch would read the events twice.
    read = {progress["batchId"]: progress["numInputRows"] for progress in query.recentProgress}
    return [(end, read[number]) for number, end in sorted(ends.items())]
