"""Freshet from end to end, as fast as it can, and at a rate, where the ledger tells its freshness."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg2
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.definition import PipelineDefinition
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.errors import FreshetError
from spark_jobs.experiments.load.case import LoadCase
from spark_jobs.experiments.load.data import EVENT_SCHEMA, event_table
from spark_jobs.experiments.load.run_result import Batch
from spark_jobs.settings import Home
from spark_jobs.warehouse.drivers import newest_driver, request_state
from spark_jobs.warehouse.latency import percentile, total

if TYPE_CHECKING:
    from pyspark import SparkContext

PIPELINE = "bench_load"

_OF_THIS_RUN = "pipeline = %s AND epoch = (SELECT epoch FROM freshet.pipeline WHERE name = %s)"
_BATCHES = f"""
    SELECT extract(epoch FROM started_at)::float8, extract(epoch FROM closed_at)::float8, facts, statistics
    FROM freshet.batch WHERE {_OF_THIS_RUN} ORDER BY batch_no
"""
_BALANCE = f"""
    SELECT sum(arrived)::bigint, sum(facts)::bigint, sum(shed)::bigint, sum(unmatched)::bigint, sum(rejected)::bigint,
        sum(duplicates)::bigint
    FROM freshet.batch WHERE {_OF_THIS_RUN}
"""

TICK_SECONDS = 0.25
# From when the driver loads until Java has compiled what it needs, and the front stage knows the hot keys.
SETTLING_SECONDS = 20.0


def bench_definition(case: LoadCase, events: Path) -> PipelineDefinition:
    """The pipeline that loads the benchmark's events: one lookup, algorithm auto."""
    return PipelineDefinition.model_validate(
        {
            "name": PIPELINE,
            "source": {
                "format": "parquet",
                "path": str(events),
                "schema": EVENT_SCHEMA,
                "event_id": ["id"],
                "event_time": "at",
            },
            "lookups": [
                {
                    "relation": f"bench.{case.relation}",
                    "on": {"key": "key"},
                    "fetch": case.fetched,
                    "memory": case.memory_bytes,
                }
            ],
            "fact": {
                "table": "bench.fact",
                "columns": {
                    "event_id": "id",
                    **{column: column for column in case.fetched},
                    "quantity": "quantity",
                    "amount": "amount",
                    "happened_at": "at",
                },
            },
            "shedding": {"policy": "off"},
        }
    )


def load_by_freshet(
    spark: SparkContext, case: LoadCase, events: Path, home: Home, warehouse_url: str
) -> tuple[list[Batch], dict[str, Any]]:
    """Load all events.

    Returns:
        the batches, and the last one's statistics.

    Raises:
        FreshetError: what arrived is not in one place each.
    """
    StreamJob(bench_definition(case, events), home, warehouse_url).run(spark, once=True)
    with psycopg2.connect(warehouse_url) as connection, connection.cursor() as cursor:
        cursor.execute(_BATCHES, [PIPELINE, PIPELINE])
        rows = cursor.fetchall()
        cursor.execute(_BALANCE, [PIPELINE, PIPELINE])
        balance = cursor.fetchone()
    assert balance is not None
    arrived, *places = balance
    if arrived != case.all_events or arrived != sum(places):
        raise FreshetError(f"{case.all_events} events were to arrive; {arrived} did, in their places are {places}.")
    return [Batch(*row[:3]) for row in rows], rows[-1][3]


def measure_freshness(
    spark: SparkContext, case: LoadCase, home: Home, warehouse_url: str, rate: float, seconds: float
) -> dict[str, float]:
    """Stream events at a rate, and read the percentiles of event time to commit, after the settling time.

    Args:
        spark: runs the tasks.
        case: the benchmark's size.
        home: scratch home.
        warehouse_url: the warehouse.
        rate: events per second.
        seconds: how long to measure.

    Returns:
        p50_seconds, p99_seconds, and the events per second that were loaded while measuring.
    """
    landing = home.root / "landing"
    landing.mkdir(parents=True)
    settled_at: list[datetime] = []
    feeder = threading.Thread(target=_feed, args=(case, landing, warehouse_url, rate, seconds, settled_at), daemon=True)
    feeder.start()
    StreamJob(bench_definition(case, landing), home, warehouse_url).run(spark, once=False, resume=True)
    feeder.join()
    with psycopg2.connect(warehouse_url) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT event_latency, facts FROM freshet.batch WHERE pipeline = %s AND started_at > %s",
            [PIPELINE, settled_at[0]],
        )
        rows = cursor.fetchall()
    histogram = total(latency for latency, _ in rows)
    return {
        "p50_seconds": percentile(histogram, 0.50) or 0.0,
        "p99_seconds": percentile(histogram, 0.99) or 0.0,
        "events_per_second": sum(facts for _, facts in rows) / seconds,
    }


def _feed(
    case: LoadCase, landing: Path, warehouse_url: str, rate: float, seconds: float, settled_at: list[datetime]
) -> None:
    """Let events land four times a second, each stamped with its own moment; then ask the driver to drain.

    It begins when the driver loads: what waits while Spark starts would have to be made up for first.
    """
    with closing(psycopg2.connect(warehouse_url)) as connection:
        while (driver := newest_driver(connection, PIPELINE)) is None or not driver.is_alive():
            time.sleep(TICK_SECONDS)
    count = round(rate * TICK_SECONDS)
    started = time.monotonic()
    ticks = round((SETTLING_SECONDS + seconds) / TICK_SECONDS)
    for tick in range(ticks):
        events = event_table(case, tick * count, count)
        if tick == round(SETTLING_SECONDS / TICK_SECONDS):
            settled_at.append(datetime.now(UTC))
        time.sleep(max(0.0, started + (tick + 1) * TICK_SECONDS - time.monotonic()))
        now = datetime.now(UTC).timestamp()
        moments = ((now - TICK_SECONDS + TICK_SECONDS * np.arange(count) / count) * 1e6).astype(np.int64)
        at = pa.array(moments).cast(pa.timestamp("us", "UTC"))
        hidden = landing / f".tick-{tick}"
        pq.write_table(events.set_column(events.column_names.index("at"), "at", at), hidden)
        hidden.rename(landing / f"tick-{tick}.parquet")
    with closing(psycopg2.connect(warehouse_url)) as connection:
        request_state(connection, PIPELINE, "draining")
