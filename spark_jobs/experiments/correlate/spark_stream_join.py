"""Contenders: Spark's own stream-stream join, its state in RocksDB or in memory, with its JDBC sink."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.experiments.correlate.data import LATENESS, WINDOW
from spark_jobs.experiments.load.spark_join import DRIVER_PACKAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES_PER_BATCH = 4  # 200,000 events: smaller ones are slower, larger ones of no use to anybody who wants fresh facts
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
_SCHEMAS = {
    "auctions": "auction_id bigint, category int, seller bigint, opened_at timestamp",
    "bids": "bid_id bigint, auction_id bigint, bidder bigint, price bigint, bid_at timestamp",
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
    session: SparkSession, events: Path, checkpoint: Path, jdbc_url: str
) -> list[tuple[float, int]]:
    """Join and load all events the way Spark's documentation joins two streams.

    Both sides are watermarked and the condition bounds event times, so that state is dropped when it can't match any
    more; only the columns that are needed are read; inserts are sent as multi-row statements in batches of 10,000.

    Args:
        session: a session of `spark_session`.
        events: folder of the streams' folders.
        checkpoint: new folder.
        jdbc_url: the warehouse, by JDBC.

    Returns:
        for each batch the moment of its end in seconds, and its tuples of both streams.
    """

    def stream(name: str, event_time: str) -> DataFrame:
        read = session.readStream.schema(_SCHEMAS[name]).option("maxFilesPerTrigger", FILES_PER_BATCH)
        return read.parquet(str(events / name)).withWatermark(event_time, f"{LATENESS.total_seconds():.0f} seconds")

    auctions, bids = stream("auctions", "opened_at"), stream("bids", "bid_at").withColumnRenamed("auction_id", "bid_on")
    window = f"interval {WINDOW.total_seconds():.0f} seconds"
    near = f"bid_on = auction_id AND bid_at > opened_at - {window} AND bid_at < opened_at + {window}"
    from pyspark.sql.functions import expr

    facts = bids.join(auctions, expr(near)).select(
        "auction_id", "bid_id", "seller", "category", "bidder", "price", "opened_at", "bid_at"
    )
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
