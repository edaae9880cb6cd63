"""Facts that were not fresh in time, as the ledger's histograms have them."""

from __future__ import annotations

from datetime import timedelta

from psycopg2 import sql

from spark_jobs.validation.window import Window, within
from spark_jobs.warehouse.latency import RATIO, UPPER_BOUNDS

FRESH_SHARE = 0.99


def late_facts(pipeline: str, window: Window, target: timedelta) -> sql.Composable:
    """Query for the batches of the window that have late facts, and how many (`late`), the worst first.

    Counts a bucket of latencies that the target cuts in two by parts, as `latency.percentile` does: the 99th
    percentile is within the target if no more than 1 % of the facts are late.

    Args:
        pipeline: its name.
        window: the facts.
        target: the longest time from the event until its fact can be read.
    """
    return sql.SQL(
        """
        SELECT batch_no, closed_at, late FROM (
            SELECT batch_no, closed_at, (
                SELECT round(sum(count * least(1, greatest(0,
                    ln({shortest} * power({ratio}, number - 1) / {target}) / ln({ratio})))))::bigint
                FROM unnest(event_latency) WITH ORDINALITY AS bucket (count, number) WHERE count > 0
            ) AS late
            FROM freshet.batch WHERE pipeline = {pipeline} AND state <> 'started' AND {numbers}
        ) AS batches WHERE late > 0 ORDER BY late DESC
        """
    ).format(
        shortest=sql.Literal(float(UPPER_BOUNDS[0]) / 1e6),
        ratio=sql.Literal(RATIO),
        target=sql.Literal(target.total_seconds()),
        pipeline=sql.Literal(pipeline),
        numbers=within(sql.Identifier("batch_no"), window.ranges),
    )
