"""How fresh Freshet's facts are at a rate: events land tick by tick while the driver runs, and the ledger tells."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import psycopg2

from spark_jobs.control.driver_records import newest_driver
from spark_jobs.control.driver_requests import request_state
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.errors import FreshetError
from spark_jobs.ledger.latency import percentile, total

if TYPE_CHECKING:
    from pyspark import SparkContext

FILE_TICK_SECONDS = 0.25
# From when the driver loads until Java has compiled what it needs, and the front stage knows the hot keys.
SETTLING_SECONDS = 20.0

Feed = Callable[[int], Callable[[float], None]]
"""Gets the events of a tick ready, and returns what lands them, as events of the tick that ends at a moment."""


def measure_freshness(
    spark: SparkContext,
    job: StreamJob,
    warehouse_url: str,
    feed: Feed,
    tick_seconds: float,
    seconds: float,
    finish: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """Have events land, and read the percentiles of event time to commit, after the settling time.

    Args:
        spark: runs the tasks.
        job: the pipeline's.
        warehouse_url: the warehouse.
        feed: makes the events land.
        tick_seconds: from one landing to the next.
        seconds: how long to measure.
        finish: waits until all that was fed has landed.

    Returns:
        p50_seconds, p99_seconds, and the events per second that were loaded while measuring.

    Raises:
        FreshetError: no event was loaded while measuring.
    """
    pipeline = job.definition.name
    ended = threading.Event()
    with ThreadPoolExecutor(1, "feeder") as beside:
        feeding = beside.submit(_feed, pipeline, warehouse_url, feed, tick_seconds, seconds, finish, ended)
        try:
            job.run(spark, once=False, resume=True)
        finally:
            ended.set()
        settled_at = feeding.result()
    with closing(psycopg2.connect(warehouse_url)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT event_latency, arrived FROM freshet.batch WHERE pipeline = %s AND started_at > %s",
            [pipeline, settled_at],
        )
        rows = cursor.fetchall()
    histogram = total(latency for latency, _ in rows)
    p50, p99 = percentile(histogram, 0.50), percentile(histogram, 0.99)
    if p50 is None or p99 is None:
        raise FreshetError(f"{pipeline}: no event was loaded in the {seconds:g} s after it had settled: measure longer")
    return {
        "p50_seconds": p50,
        "p99_seconds": p99,
        "events_per_second": sum(arrived for _, arrived in rows) / seconds,
    }


def _feed(
    pipeline: str,
    warehouse_url: str,
    feed: Feed,
    tick_seconds: float,
    seconds: float,
    finish: Callable[[], None],
    ended: threading.Event,
) -> datetime | None:
    """Let events land tick by tick, until the driver has ended; then ask it to drain.

    It begins when the driver loads: what waits while Spark starts would have to be made up for first.

    Returns:
        when the settling time was over; None if the driver ended before.
    """
    settled_at = None
    with closing(psycopg2.connect(warehouse_url)) as connection:
        while (driver := newest_driver(connection, pipeline)) is None or not driver.is_alive():
            if ended.wait(tick_seconds):
                return None
    started = time.monotonic()
    try:
        for tick in range(round((SETTLING_SECONDS + seconds) / tick_seconds)):
            land = feed(tick)
            if settled_at is None and tick * tick_seconds >= SETTLING_SECONDS:
                settled_at = datetime.now(UTC)
            if ended.wait(max(0.0, started + (tick + 1) * tick_seconds - time.monotonic())):
                break
            land(datetime.now(UTC).timestamp())
        finish()
    finally:
        with closing(psycopg2.connect(warehouse_url)) as connection:
            request_state(connection, pipeline, "draining")
    return settled_at
