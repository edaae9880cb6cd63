"""Sums up a long ledger for the first time: where the sums by minute agree with it, their histograms will do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from psycopg2 import extensions

from spark_jobs.ledger.sums import LedgerSums
from spark_jobs.warehouse.latency import total

# A batch's histogram costs some twenty times what its counts do. A minute's sums stand for its batches if the counts
# are the same: they are not where retention has deleted some of them, where they are older than the sums by minute,
# and in the minute that is cut by the end.
_SUMS = """
    SELECT known.pipeline, summed.* FROM unnest(%(pipelines)s::text[]) AS known (pipeline) CROSS JOIN LATERAL (
        WITH counted AS (
            SELECT date_trunc('minute', closed_at) AS minute, count(*) AS batches,
                sum(coalesce(arrived, facts + shed + unmatched + rejected + duplicates)) AS records,
                sum(facts) AS facts,
                sum(shed) AS shed, sum(unmatched) AS unmatched, sum(rejected) AS rejected,
                sum(duplicates) AS duplicates, max(closed_at) FILTER (WHERE state = 'committed') AS last_commit,
                max(batch_no) AS last_batch
            FROM freshet.batch
            WHERE pipeline = known.pipeline AND state <> 'started' AND closed_at <= %(before)s GROUP BY 1
        ), minutes AS MATERIALIZED (
            SELECT counted.*, kept.event_latency AS freshness FROM counted
            LEFT JOIN freshet.ledger_minute AS kept ON kept.pipeline = known.pipeline AND kept.minute = counted.minute
                AND (kept.batches, kept.arrived, kept.facts, kept.shed, kept.unmatched, kept.rejected,
                    kept.duplicates)
                    = (counted.batches, counted.records, counted.facts, counted.shed, counted.unmatched,
                       counted.rejected, counted.duplicates)
        )
        SELECT sum(batches)::bigint, sum(records)::bigint, sum(facts)::bigint, sum(shed)::bigint,
            sum(unmatched)::bigint,
            sum(rejected)::bigint, sum(duplicates)::bigint, max(last_commit),
            (SELECT array_agg(count ORDER BY bucket) FROM (
                SELECT bucket, sum(latency)::bigint AS count
                FROM minutes, unnest(freshness) WITH ORDINALITY AS histogram (latency, bucket) GROUP BY bucket
            ) AS summed),
            max(last_batch), array_agg(minute) FILTER (WHERE freshness IS NULL)
        FROM minutes HAVING count(*) > 0) AS summed
"""
# One pass over the ledger, however many minutes there are.
_OTHER_MINUTES = """
    SELECT pipeline, array_agg(count ORDER BY bucket) FROM (
        SELECT batch.pipeline, bucket, sum(latency)::bigint AS count
        FROM freshet.batch CROSS JOIN unnest(event_latency) WITH ORDINALITY AS histogram (latency, bucket)
        WHERE state <> 'started' AND closed_at <= %(before)s
            AND (batch.pipeline, date_trunc('minute', closed_at)) IN (
                SELECT * FROM unnest(%(pipelines)s::text[], %(minutes)s::timestamptz[]))
        GROUP BY batch.pipeline, bucket) AS summed
    GROUP BY pipeline
"""


class SumsBefore(NamedTuple):
    """The sums of the batches that were closed up to a time, and the number of the last of them."""

    sums: LedgerSums
    last_batch: int


def sums_before(cursor: extensions.cursor, pipelines: Sequence[str], before: datetime) -> dict[str, SumsBefore]:
    """Sum up the batches that were closed at this time or earlier; pipelines without any are left out.

    Two queries. They read the counts of every batch, and histograms a minute: some 20 times less than a batch.

    Args:
        cursor: in a transaction that sees one state of the warehouse from its first to its last statement.
        pipelines: names.
        before: by the warehouse's clock.
    """
    cursor.execute(_SUMS, {"pipelines": list(pipelines), "before": before})
    read = {}
    others: list[tuple[str, datetime]] = []
    for pipeline, *counts, last_commit, freshness, last_batch, minutes in cursor.fetchall():
        read[pipeline] = SumsBefore(LedgerSums(*(*counts, last_commit, total([freshness]))), last_batch)
        others += [(pipeline, minute) for minute in minutes or ()]
    cursor.execute(
        _OTHER_MINUTES,
        {
            "pipelines": [pipeline for pipeline, _ in others],
            "minutes": [minute for _, minute in others],
            "before": before,
        },
    )
    for pipeline, freshness in cursor.fetchall():
        histogram = read[pipeline].sums.freshness
        histogram += total([freshness])
    return read
