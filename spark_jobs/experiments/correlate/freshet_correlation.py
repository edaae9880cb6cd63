"""Contender: Freshet from end to end, by the driver that a pipeline of several streams has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2

from spark_jobs.definition import PipelineDefinition
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.experiments.correlate.data import LATENESS, WINDOW
from spark_jobs.settings import Home

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
_SCHEMAS = {
    "auctions": "auction_id bigint, category int, seller bigint, opened_at timestamp",
    "bids": "bid_id bigint, auction_id bigint, bidder bigint, price bigint, bid_at timestamp",
}


def bench_definition(events: Path) -> PipelineDefinition:
    """The pipeline that joins the benchmark's streams; no lookups."""
    ids, times = {"auctions": "auction_id", "bids": "bid_id"}, {"auctions": "opened_at", "bids": "bid_at"}
    return PipelineDefinition.model_validate(
        {
            "name": PIPELINE,
            "streams": {
                stream: {
                    "format": "parquet",
                    "path": str(events / stream),
                    "schema": schema,
                    "event_id": [ids[stream]],
                    "event_time": times[stream],
                }
                for stream, schema in _SCHEMAS.items()
            },
            "correlate": {
                "on": {"auctions": "auction_id", "bids": "auction_id"},
                "within": WINDOW,
                "lateness": LATENESS,
                "memory": "512MB",
            },
            "fact": {
                "table": "bench.auction_bids",
                "columns": {
                    "auction_id": "auctions.auction_id",
                    "bid_id": "bids.bid_id",
                    "seller": "auctions.seller",
                    "category": "auctions.category",
                    "bidder": "bids.bidder",
                    "price": "bids.price",
                    "opened_at": "auctions.opened_at",
                    "bid_at": "bids.bid_at",
                },
            },
            "shedding": {"policy": "off"},
        }
    )


def load_by_freshet(
    spark: SparkContext, events: Path, home: Home, warehouse_url: str
) -> tuple[list[tuple[float, int]], dict[str, Any]]:
    """Join and load all events.

    Returns:
        for each batch the moment of its commit in seconds, and its tuples of both streams; and the last batch's
        statistics.
    """
    StreamJob(bench_definition(events), home, warehouse_url).run(spark, once=True)
    with psycopg2.connect(warehouse_url) as connection, connection.cursor() as cursor:
        cursor.execute(_BATCHES, [PIPELINE])
        rows = cursor.fetchall()
    return [(end, arrived) for end, arrived, _ in rows], rows[-1][2]
