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
from spark_jobs.experiments.load.data import event_table
from spark_jobs.experiments.load.event_forms import Form, make_place, records, source_of
from spark_jobs.experiments.load.run_result import Batch
from spark_jobs.settings import Home
from spark_jobs.warehouse.drivers import newest_driver, request_state
from spark_jobs.warehouse.latency import percentile, total
from spark_jobs.workload.topics import TopicWriter

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

FILE_TICK_SECONDS, TOPIC_TICK_SECONDS = 0.25, 0.02
# From when the driver loads until Java has compiled what it needs, and the front stage knows the hot keys.
SETTLING_SECONDS = 20.0


def bench_definition(case: LoadCase, source: dict[str, Any]) -> PipelineDefinition:
    """The pipeline that loads the benchmark's events from a source: one lookup, algorithm auto."""
    return PipelineDefinition.model_validate(
        {
            "name": PIPELINE,
            "source": source,
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
    spark: SparkContext, case: LoadCase, source: dict[str, Any], home: Home, warehouse_url: str
) -> tuple[list[Batch], dict[str, Any]]:
    """Load all events.

    Returns:
        the batches, and the last one's statistics.

    Raises:
        FreshetError: what arrived is not in one place each.
    """
    StreamJob(bench_definition(case, source), home, warehouse_url).run(spark, once=True)
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
    spark: SparkContext, case: LoadCase, form: Form, home: Home, warehouse_url: str, rate: float, seconds: float
) -> dict[str, float]:
    """Stream events at a rate, and read the percentiles of event time to commit, after the settling time.

    Args:
        spark: runs the tasks.
        case: the benchmark's size.
        form: of the events: Parquet files, or a topic, to which they are written one by one.
        home: scratch home.
        warehouse_url: the warehouse.
        rate: events per second.
        seconds: how long to measure.

    Returns:
        p50_seconds, p99_seconds, and the events per second that were loaded while measuring.
    """
    place = home.root / f"landing-{home.root.name}"
    writer = make_place(place, form)
    settled_at: list[datetime] = []
    feeder = threading.Thread(
        target=_feed, args=(case, place, form, writer, warehouse_url, rate, seconds, settled_at), daemon=True
    )
    feeder.start()
    StreamJob(bench_definition(case, source_of(place, form)), home, warehouse_url).run(spark, once=False, resume=True)
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
    case: LoadCase,
    place: Path,
    form: Form,
    writer: TopicWriter | None,
    warehouse_url: str,
    rate: float,
    seconds: float,
    settled_at: list[datetime],
) -> None:
    """Let events land tick by tick, each stamped with its own moment; then ask the driver to drain.

    It begins when the driver loads: what waits while Spark starts would have to be made up for first.
    """
    tick_seconds = FILE_TICK_SECONDS if writer is None else TOPIC_TICK_SECONDS
    with closing(psycopg2.connect(warehouse_url)) as connection:
        while (driver := newest_driver(connection, PIPELINE)) is None or not driver.is_alive():
            time.sleep(tick_seconds)
    count = round(rate * tick_seconds)
    started = time.monotonic()
    for tick in range(round((SETTLING_SECONDS + seconds) / tick_seconds)):
        events = event_table(case, tick * count, count)
        if not settled_at and tick * tick_seconds >= SETTLING_SECONDS:
            settled_at.append(datetime.now(UTC))
        time.sleep(max(0.0, started + (tick + 1) * tick_seconds - time.monotonic()))
        now = datetime.now(UTC).timestamp()
        moments = ((now - tick_seconds + tick_seconds * np.arange(count) / count) * 1e6).astype(np.int64)
        at = pa.array(moments).cast(pa.timestamp("us", "UTC"))
        stamped = events.set_column(events.column_names.index("at"), "at", at)
        if writer is not None:
            writer.send(place.name, records(stamped, form))
            continue
        hidden = place / f".tick-{tick}"
        pq.write_table(stamped, hidden)
        hidden.rename(place / f"tick-{tick}.parquet")
    if writer is not None:
        writer.finish()
    with closing(psycopg2.connect(warehouse_url)) as connection:
        request_state(connection, PIPELINE, "draining")
