"""Spark's own stream-static join: with its JDBC source and sink, and with a sink of one's own that COPYs by ADBC."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.experiments.load.case import LoadCase
from spark_jobs.experiments.load.data import EVENT_SCHEMA
from spark_jobs.experiments.load.run_result import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DRIVER_PACKAGE = "org.postgresql:postgresql:42.7.4"
BYTES_PER_BATCH = 24 << 20  # as Freshet begins


def spark_session(cores: int) -> SparkSession:
    """A session as Spark ships it: adaptive execution on; a heap that holds R, one shuffle partition a core."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers' of the sink that COPYs
    return (
        SparkSession.builder.appName("bench")
        .master("local[*]")
        .config("spark.driver.memory", "6g")
        .config("spark.jars.packages", DRIVER_PACKAGE)
        .config("spark.sql.shuffle.partitions", cores)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )


class SparkJoin:
    """Loads all events the way Spark's documentation joins a stream with a table.

    It gets what a user would tune: R read by all cores, only the columns that are needed. The JDBC sink sends
    multi-row statements (reWriteBatchedInserts) in batches of 10,000; the other COPYs each partition by ADBC, with a
    marker in the same transaction. A cached R is partitioned and sorted by the key already, so that no batch shuffles
    or sorts it again; for the sink that COPYs it is broadcast instead.

    Args:
        session: a session of `spark_session`.
        case: the benchmark's case.
        warehouse_url: libpq URL.
        jdbc_url: the warehouse, by JDBC.
        cached: R is kept in memory; otherwise each batch reads it anew.
        copying: facts are stored by COPY.
    """

    def __init__(
        self, session: SparkSession, case: LoadCase, warehouse_url: str, jdbc_url: str, *, cached: bool, copying: bool
    ) -> None:
        from pyspark.sql.functions import broadcast

        self._session = session
        self._case = case
        self._warehouse_url = warehouse_url
        self._options = {"url": jdbc_url, "driver": "org.postgresql.Driver"}
        self._copying = copying
        self._kept: DataFrame | None = None
        self._batches: dict[int, Batch] = {}
        if cached:
            kept = self._relation()
            kept = kept if copying else kept.repartition(case.cores, "key").sortWithinPartitions("key")
            kept.cache().count()
            self._kept = broadcast(kept) if copying else kept

    def load(self, events: Path, checkpoint: Path) -> list[Batch]:
        """Load the event files of a folder.

        Args:
            events: the folder.
            checkpoint: new folder.
        """
        source = self._session.readStream.schema(EVENT_SCHEMA).option("maxBytesPerTrigger", BYTES_PER_BATCH)
        writer = source.parquet(str(events)).writeStream.option("checkpointLocation", str(checkpoint))
        query = writer.foreachBatch(self._load_batch).trigger(availableNow=True).start()
        query.awaitTermination()
        # Counting inside the batch would read the events twice.
        read = {progress["batchId"]: progress["numInputRows"] for progress in query.recentProgress}
        return [batch._replace(facts=read[number]) for number, batch in sorted(self._batches.items())]

    def _relation(self) -> DataFrame:
        # A range per core. The query leaves the wide column in the database.
        rows, cores = self._case.relation_rows, self._case.cores
        return (
            self._session.read.format("jdbc")
            .options(**self._options, dbtable=f"bench.{self._case.relation}", fetchsize=10_000)
            .options(partitionColumn="key", lowerBound=0, upperBound=rows, numPartitions=cores)
            .load()
            .select("key", *self._case.fetched.values())
        )

    def _load_batch(self, batch: DataFrame, number: int) -> None:
        started = time.time()
        fetched = [f"{column} AS {fact}" for fact, column in self._case.fetched.items()]
        facts = batch.join(self._relation() if self._kept is None else self._kept, "key").selectExpr(
            "id AS event_id", *fetched, "quantity", "amount", "at AS happened_at"
        )
        if self._copying:
            url = self._warehouse_url
            facts.mapInArrow(lambda parts: _copy(parts, url, number), "facts long").collect()
        else:
            sink = facts.write.format("jdbc").options(**self._options, dbtable="bench.fact", batchsize=10_000)
            sink.option("reWriteBatchedInserts", "true").mode("append").save()
        self._batches[number] = Batch(started, time.time(), 0)


def _copy(parts: Iterator[pa.RecordBatch], warehouse_url: str, batch: int) -> Iterator[pa.RecordBatch]:
    """Store a partition's facts, unless it is marked as stored; in a task."""
    from adbc_driver_postgresql import dbapi
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    marker = f"batch {batch}, partition {context.partitionId()}"
    stored = 0
    with dbapi.connect(warehouse_url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT FROM bench.loaded_file WHERE name = $1", [marker])
        if cursor.fetchone() is None:
            cursor.adbc_ingest("loaded_file", pa.table({"name": [marker]}), mode="append", db_schema_name="bench")
            if (first := next(parts, None)) is not None:
                rows = pa.RecordBatchReader.from_batches(first.schema, chain([first], parts))
                stored = cursor.adbc_ingest("fact", rows, mode="append", db_schema_name="bench")
            connection.commit()
    yield pa.record_batch({"facts": [stored]})
