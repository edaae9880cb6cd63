"""Freshet from end to end, as fast as it can, and at a rate, where the ledger tells its freshness."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg2
import pyarrow as pa

from spark_jobs.definition import PipelineDefinition
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.errors import FreshetError
from spark_jobs.experiments.freshness_at_rate import FILE_TICK_SECONDS, measure_freshness
from spark_jobs.experiments.load.case import LoadCase
from spark_jobs.experiments.load.data import event_table
from spark_jobs.experiments.load.event_forms import Form, make_place, records, source_of
from spark_jobs.experiments.load.run_result import Batch
from spark_jobs.settings import Home
from spark_jobs.workload.landing import land_parquet

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

_TOPIC_TICK_SECONDS = 0.02


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


def freshness_at(
    spark: SparkContext, case: LoadCase, form: Form, home: Home, warehouse_url: str, rate: float, seconds: float
) -> dict[str, float]:
    """Stream events at a rate, each stamped with its own moment, and measure how fresh their facts are.

    Args:
        spark: runs the tasks.
        case: the benchmark's size.
        form: of the events: Parquet files, or a topic, to which they are written one by one.
        home: scratch home.
        warehouse_url: the warehouse.
        rate: events per second.
        seconds: how long to measure.

    Returns:
        as `measure_freshness`.
    """
    place = home.root / f"landing-{home.root.name}"
    writer = make_place(place, form)
    tick_seconds = FILE_TICK_SECONDS if writer is None else _TOPIC_TICK_SECONDS
    count = round(rate * tick_seconds)

    def feed(tick: int) -> Callable[[float], None]:
        events = event_table(case, tick * count, count)

        def land(now: float) -> None:
            moments = ((now - tick_seconds + tick_seconds * np.arange(count) / count) * 1e6).astype(np.int64)
            at = pa.array(moments).cast(pa.timestamp("us", "UTC"))
            stamped = events.set_column(events.column_names.index("at"), "at", at)
            if writer is None:
                land_parquet(place, f"tick-{tick}.parquet", stamped)
            else:
                writer.send(place.name, records(stamped, form))

        return land

    job = StreamJob(bench_definition(case, source_of(place, form)), home, warehouse_url)
    finish = (lambda: None) if writer is None else writer.finish
    return measure_freshness(spark, job, warehouse_url, feed, tick_seconds, seconds, finish)
