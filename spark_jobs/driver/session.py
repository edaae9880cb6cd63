"""The SparkContext of a job."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from spark_jobs.driver.java import java_environment
from spark_jobs.driver.java_classes import archiving_classes
from spark_jobs.driver.scratch import scratch_folder, sockets_folder
from spark_jobs.errors import PlatformError
from spark_jobs.private_files import make_private
from spark_jobs.secret_text import keep_secrets_in
from spark_jobs.settings import Home

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

# A task that fails is tried three times more. Spark's plain local[*] would try once only, and one
# killed Python worker would fail the batch.
DEFAULT_MASTER = "local[*,4]"

_SETTINGS = {
    # Reused workers keep their warehouse connection and the mapped hot sets from batch to batch.
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "spark_jobs.stages.worker_daemon",
    # A large batch of one pipeline does not starve the others of its driver.
    "spark.scheduler.mode": "FAIR",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.port": "0",
    # Every user of a machine can connect to its ports. Spark deserialises what they are sent, and hands out tasks.
    "spark.authenticate": "true",
    # Its pages ask for no password, and stop threads and the whole JVM for whoever looks.
    "spark.ui.enabled": "false",
    "spark.ui.killEnabled": "false",
    "spark.ui.threadDumpsEnabled": "false",
    "spark.ui.heapHistogramEnabled": "false",
}
SPARK_SECRET_VARIABLE = "FRESHET_SPARK_SECRET"
"""What a Spark cluster's processes and its drivers know, and nobody else. On one machine Spark makes it up."""
SPARK_UI_VARIABLE = "FRESHET_SPARK_UI"
"""Set to anything, it has each driver serve Spark's own pages."""


_SMALL_JOBS = "0 small jobs"  # before every pipeline's name
# On one machine nothing needs to be reached from outside.
_LOCAL_SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# What tasks exchange, and what they are given, crosses a network.
_CLUSTER_SETTINGS = {"spark.network.crypto.enabled": "true"}


@contextmanager
def starting_context(pipeline: str, home: Home, master: str | None = None) -> Iterator[Callable[[], SparkContext]]:
    """Make the context, and start the process that its Python workers are forked from, in a thread; stop it at the end.

    Both take seconds, in which the caller imports and plans what tasks are to do. Arguments as for `join_context`.

    Yields:
        what waits for the context.
    """
    with ThreadPoolExecutor(1, "spark-start") as beside:
        started = beside.submit(join_context, pipeline, home, master)
        beside.submit(_start_workers, started)  # should it fail, the first batch's tasks tell why
        try:
            with archiving_classes(started.result):
                yield started.result
        finally:
            if started.exception() is None:
                from py4j.protocol import Py4JError  # late: whoever reads DEFAULT_MASTER alone needs no Spark

                with suppress(Py4JError, OSError):  # its JVM was killed, which the caller has told
                    started.result().stop()


def _start_workers(started: Future[SparkContext]) -> None:
    spark = started.result()
    spark.setJobDescription("start Python workers")
    spark.parallelize([None], 1).mapPartitions(list).collect()


def jobs_of(pipeline: str, spark: SparkContext) -> None:
    """Let the jobs that this thread starts be those of this pipeline."""
    take_turns(pipeline, spark, small=True)
    spark.addJobTag(pipeline)


def take_turns(pipeline: str, spark: SparkContext, *, small: bool) -> None:
    """Let the next jobs of this thread take turns with those of other pipelines: small ones first come, first served.

    Of pools that run equally many tasks, Spark serves the first by name: fifty with a small job each would starve the
    last ones for as long as the others have work. Within one pool the oldest job is served first.
    """
    spark.setLocalProperty("spark.scheduler.pool", _SMALL_JOBS if small else pipeline)


def _local_settings(home: Home) -> dict[str, str]:
    scratch = scratch_folder(home)
    return _LOCAL_SETTINGS | {
        "spark.local.dir": str(scratch),
        # Whoever can connect to a port of Python's may hold it, and keep tasks from reporting.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(sockets_folder(scratch)),
    }


def _share_secret(configuration: SparkConf, master: str) -> None:
    secret = os.environ.get(SPARK_SECRET_VARIABLE)
    if secret:
        configuration.set("spark.authenticate.secret", secret)
    elif master.startswith("spark://") and not configuration.contains("spark.authenticate.secret"):
        raise PlatformError(
            f"The Spark cluster {master} needs a secret: whoever reaches its ports runs code in it otherwise. Start "
            "its master and its workers with spark.authenticate=true and the secret in the environment variable "
            f"_SPARK_AUTH_SECRET, and set {SPARK_SECRET_VARIABLE} to the same where drivers are launched. A cluster "
            "that is to go without says spark.authenticate=false in its spark-defaults.conf."
        )


def join_context(pipeline: str, home: Home, master: str | None = None) -> SparkContext:
    """Make the context, or take the one that spark-submit configured.

    Args:
        pipeline: name of the pipeline, for the Spark UI.
        home: the installation.
        master: Spark master URL; None leaves it to spark-submit, or else to all cores of this machine. Of a cluster it
            waits for the first executor: its cores are not known before.

    Raises:
        PlatformError: the master is a cluster, and nothing says what its processes know each other by.
    """
    make_private(home)
    keep_secrets_in(scratch_folder(home))
    os.environ.update(java_environment(home))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark import SparkConf, SparkContext

    # Without this Python puts all settings, a secret too, into the command line of the Java that it starts; one that
    # spark-submit has started (PYSPARK_GATEWAY_PORT) knows settings of its own.
    if "PYSPARK_GATEWAY_PORT" in os.environ or not (master or DEFAULT_MASTER).startswith("local"):
        SparkContext._ensure_initialized()
    configuration = SparkConf()  # what spark-submit handed over
    chosen = master or configuration.get("spark.master") or DEFAULT_MASTER
    local = chosen.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # the Spark UI too is for this machine only
    if os.environ.get(SPARK_UI_VARIABLE):
        configuration.setIfMissing("spark.ui.enabled", "true")
    for key, value in (_SETTINGS | (_local_settings(home) if local else _CLUSTER_SETTINGS)).items():
        configuration.setIfMissing(key, value)
    if not local and configuration.get("spark.authenticate") == "true":
        _share_secret(configuration, chosen)
    context = SparkContext.getOrCreate(configuration.setAppName(f"freshet {pipeline}").setMaster(chosen))
    context.setLogLevel("WARN")
    jvm = context._jvm
    assert jvm is not None
    # It warns of each pool that no file describes.
    jvm.org.apache.logging.log4j.core.config.Configurator.setLevel(
        "org.apache.spark.scheduler.FairSchedulableBuilder", jvm.org.apache.logging.log4j.Level.ERROR
    )
    if not local:
        context.parallelize([None], 1).count()
    return context
