"""Contenders: Spark's own stream-stream join, its state in RocksDB or in memory, with its JDBC sink."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.experiments.correlate.data import LATENESS, SCHEMAS, WINDOW, CorrelateCase
from spark_jobs.experiments.load.spark_join import DRIVER_PACKAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES_PER_BATCH = 4  # 200,000 events: some seconds, as Freshet's freshness target allows
_CORES = os.cpu_count() or 1
_STATE = "spark.sql.streaming.stateStore"
_PROVIDERS = {
    "rocksdb": {
        f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        # A batch writes what has changed, instead of whole snapshots; and nobody asks how many rows there are.
        f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
        f"{_STATE}.rocksdb.trackTotalNumberOfRows": "false",
    },
    "memory": {
        f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    },
}


def spark_session(provider: str) -> SparkSession:
    """A session with what a user would tune: a state store for each core, no batches without data.

    Args:
        provider: rocksdb or memory.
    """
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.appName("bench")
        .master("local[*]")
        .config("spark.driver.memory", "6g")
        .config("spark.jars.packages", DRIVER_PACKAGE)
        .config("spark.sql.shuffle.partitions", _CORES)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        .config("spark.sql.streaming.numRecentProgressUpdates", 100_000)
        .config("spark.ui.enabled", "false")
    )
    for key, value in _PROVIDERS[provider].items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def load_by_spark_stream_join(
    session: SparkSession, case: CorrelateCase, events: Path, checkpoint: Path, jdbc_url: str
) -> list[tuple[float, int]]:
    """Join and load all events the way Spark's documentation joins streams.

    All sides are watermarked and the conditions bound event times, so that state is dropped when it can't match any
    more; only the columns that are needed are read; inserts are sent as multi-row statements in batches of 10,000.

    Args:
        session: a session of `spark_session`.
        case: which streams.
        events: folder of the streams' folders.
        checkpoint: new folder.
        jdbc_url: the warehouse, by JDBC.

    Returns:
        for each batch the moment of its end in seconds, and its tuples of all streams.
    """

    def stream(name: str, event_time: str) -> DataFrame:
        read = session.readStream.schema(SCHEMAS[name]).option("maxFilesPerTrigger", FILES_PER_BATCH)
        return read.parquet(str(events / name)).withWatermark(event_time, f"{LATENESS.total_seconds():.0f} seconds")

    from pyspark.sql.functions import expr

    window = f"interval {WINDOW.total_seconds():.0f} seconds"

    def near(one: str, other: str) -> str:
        return f"{one} > {other} - {window} AND {one} < {other} + {window}"

    auctions, bids = stream("auctions", "opened_at"), stream("bids", "bid_at").withColumnRenamed("auction_id", "bid_on")
    facts = bids.join(auctions, expr(f"bid_on = auction_id AND {near('bid_at', 'opened_at')}"))
    if "closings" in case.streams:
        closings = stream("closings", "closed_at").withColumnRenamed("auction_id", "closed_on")
        # Spark takes one event time from the first join to the second: a computed column is none. That it is near the
        # opening need not be asked: an auction closes within a minute.
        facts = facts.withColumn("opened_at", expr("opened_at + interval 0 seconds"))
        facts = facts.join(closings, expr(f"closed_on = auction_id AND {near('closed_at', 'bid_at')}"))
    facts = facts.select(*case.fact_columns)
    ends: dict[int, float] = {}

    def load(batch: DataFrame, number: int) -> None:
        (
            batch.write.format("jdbc")
            .options(url=jdbc_url, driver="org.postgresql.Driver", dbtable="bench.auction_bids")
            .options(batchsize=10_000, reWriteBatchedInserts="true")
            .mode("append")
            .save()
        )
        ends[number] = time.perf_counter()

    writer = facts.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(load)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    read = {progress["batchId"]: progress["numInputRows"] for progress in query.recentProgress}
    return [(end, read[number]) for number, end in sorted(ends.items())]
