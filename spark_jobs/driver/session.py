"""The Spark session of a join job."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from spark_jobs.driver.java import java_environment
from spark_jobs.settings import Home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A task that fails is tried three times more. Spark's plain local[*] would try once only, and one
# killed Python worker would end the query.
DEFAULT_MASTER = "local[*,4]"

# Rows that go to a Python worker at once. The default of 10,000 spends a third of the time between batches.
ARROW_BATCH_ROWS = 65_536

_SETTINGS = {
    # Each exchange has one partition per core and each core owns a range of R: nothing to adapt.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_BATCH_ROWS),
    "spark.sql.session.timeZone": "UTC",
    # Reused workers keep their warehouse connection and the mapped hot sets from batch to batch.
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "spark_jobs.stages.worker_daemon",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.port": "0",
    "spark.sql.streaming.minBatchesToRetain": "20",
}


# On one machine nothing needs to be reached from outside.
_LOCAL_SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def join_session(pipeline: str, home: Home, master: str | None = None) -> SparkSession:
    """Make the session, or take the one that spark-submit configured.

    Args:
        pipeline: name of the pipeline, for the Spark UI.
        home: the installation.
        master: Spark master URL; None leaves it to spark-submit, or else to all cores of this machine.
    """
    os.environ.update(java_environment(home))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    if "PYSPARK_GATEWAY_PORT" in os.environ:  # set by spark-submit, whose settings its Java process knows
        SparkContext._ensure_initialized()
    submitted = SparkConf()  # what spark-submit handed over
    chosen = master or submitted.get("spark.master") or DEFAULT_MASTER
    if chosen.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # the Spark UI too is for this machine only
    settings = _SETTINGS | (_LOCAL_SETTINGS if chosen.startswith("local") else {})
    builder = SparkSession.builder.appName(f"freshet {pipeline}").master(chosen)
    for key, value in settings.items():
        if not submitted.contains(key):
            builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session
