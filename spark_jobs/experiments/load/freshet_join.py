"""Contender (a): Freshet from end to end, as `freshet load --once` runs it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2

from spark_jobs.definition import PipelineDefinition
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.experiments.load.data import LoadCase
from spark_jobs.settings import Home

if TYPE_CHECKING:
    from pyspark import SparkContext

PIPELINE = "bench_load"

_BATCHES = """
    SELECT extract(epoch FROM closed_at)::float8, facts, statistics
    FROM freshet.batch WHERE pipeline = %s AND epoch = (SELECT epoch FROM freshet.pipeline WHERE name = %s)
    ORDER BY batch_no
"""


def bench_definition(case: LoadCase, events: Path) -> PipelineDefinition:
    """The pipeline that loads the benchmark's events: one lookup, algorithm auto, memory 10 % of R."""
    return PipelineDefinition.model_validate(
        {
            "name": PIPELINE,
            "source": {
                "format": "parquet",
                "path": str(events),
                "schema": "id bigint, key bigint, quantity int, amount decimal(15,2), at timestamp",
                "event_id": ["id"],
                "event_time": "at",
            },
            "lookups": [
                {
                    "relation": f"bench.{case.relation}",
                    "on": {"key": "key"},
                    "fetch": {"relation_sk": "sk"},
                    "memory": case.memory_bytes,
                }
            ],
            "fact": {
                "table": "bench.fact",
                "columns": {
                    "event_id": "id",
                    "relation_sk": "relation_sk",
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
) -> tuple[list[tuple[float, int]], dict[str, Any]]:
    """Load all events.

    Returns:
        for each batch the moment of its commit in seconds, and its facts; and the last batch's statistics.
    """
    StreamJob(bench_definition(case, events), home, warehouse_url).run(spark, once=True)
    with psycopg2.connect(warehouse_url) as connection, connection.cursor() as cursor:
        cursor.execute(_BATCHES, [PIPELINE, PIPELINE])
        rows = cursor.fetchall()
    return [(end, facts) for end, facts, _ in rows], rows[-1][2]
