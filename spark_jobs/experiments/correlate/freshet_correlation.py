"""Contender: Freshet from end to end, by the driver that a pipeline of several streams has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg2

from spark_jobs.definition import PipelineDefinition
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.experiments.correlate.data import LATENESS, SCHEMAS, WINDOW, CorrelateCase, columns_of
from spark_jobs.experiments.freshness_at_rate import FILE_TICK_SECONDS, measure_freshness
from spark_jobs.settings import Home
from spark_jobs.workload.landing import land_parquet

if TYPE_CHECKING:
    from pyspark import SparkContext

PIPELINE = "bench_correlate"

# Batches that only let tuples expire, after the last events, are no part of loading them.
_BATCHES = """
    SELECT extract(epoch FROM closed_at)::float8, streams.arrived::bigint, statistics
    FROM freshet.batch JOIN (SELECT batch_no, sum(arrived) AS arrived FROM freshet.batch_stream GROUP BY 1) streams
        USING (batch_no)
    WHERE pipeline = %s AND closed_at IS NOT NULL AND streams.arrived > 0
    ORDER BY batch_no
"""


def bench_content(case: CorrelateCase, events: Path) -> dict[str, Any]:
    """The pipeline that joins the benchmark's streams, as its YAML file would have it; no lookups."""
    columns = {stream: list(columns_of(stream)) for stream in case.streams}
    return {
        "name": PIPELINE,
        "streams": {
            stream: {
                "format": "parquet",
                "path": str(events / stream),
                "schema": SCHEMAS[stream],
                "event_id": [columns[stream][0]],
                "event_time": columns[stream][-1],
            }
            for stream in case.streams
        },
        **_together(case),
        "fact": {
            "table": "bench.auction_bids",
            "columns": {column: f"{stream}.{column}" for column, stream in case.fact_columns.items()},
        },
        "shedding": {"policy": "off"},
    }


def _together(case: CorrelateCase) -> dict[str, Any]:
    if case.accumulates:
        return {"accumulate": {"on": dict.fromkeys(case.streams, "order_id")}}
    return {
        "join": {
            "on": dict.fromkeys(case.streams, "auction_id"),
            "window": f"{WINDOW.total_seconds():.0f}s",
            "allowed_lateness": f"{LATENESS.total_seconds():.0f}s",
            "memory": case.memory_bytes,
        }
    }


def bench_definition(case: CorrelateCase, events: Path) -> PipelineDefinition:
    """The same, read."""
    return PipelineDefinition.model_validate(bench_content(case, events))


def load_by_freshet(
    spark: SparkContext, case: CorrelateCase, events: Path, home: Home, warehouse_url: str
) -> tuple[list[tuple[float, int]], dict[str, Any]]:
    """Join and load all events.

    Returns:
        for each batch the moment of its commit in seconds, and its tuples of all streams; and the last batch's
        statistics.
    """
    StreamJob(bench_definition(case, events), home, warehouse_url).run(spark, once=True)
    with psycopg2.connect(warehouse_url) as connection, connection.cursor() as cursor:
        cursor.execute(_BATCHES, [PIPELINE])
        rows = cursor.fetchall()
    return [(end, arrived) for end, arrived, _ in rows], rows[-1][2]


def freshness_at(
    spark: SparkContext, case: CorrelateCase, home: Home, warehouse_url: str, rate: float, seconds: float
) -> dict[str, float]:
    """Stream tuples at a rate, each of its own moment, and measure how fresh their facts are.

    Args:
        spark: runs the tasks.
        case: the benchmark's size.
        home: scratch home.
        warehouse_url: the warehouse.
        rate: tuples of all streams per second.
        seconds: how long to measure.

    Returns:
        as `measure_freshness`.
    """
    streams, events = case.generator(), home.root / "fresh"
    count = round(rate / case.tuples_per_event * FILE_TICK_SECONDS)
    for stream in case.streams:
        (events / stream).mkdir(parents=True)

    def feed(tick: int) -> Callable[[float], None]:
        def land(now: float) -> None:
            moments = now + FILE_TICK_SECONDS * (np.arange(count) / count - 1)
            for stream, tuples in streams.take(tick * count, moments):
                if stream in case.streams and tuples.num_rows:
                    land_parquet(events / stream, f"{stream}-{tick:09}.parquet", tuples)

        return land

    job = StreamJob(bench_definition(case, events), home, warehouse_url)
    return measure_freshness(spark, job, warehouse_url, feed, FILE_TICK_SECONDS, seconds)
