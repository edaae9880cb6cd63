"""Sums of a pipeline's batch ledger: over all batches, or over those since a certain one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray
from psycopg2 import extensions

from spark_jobs.warehouse.latency import BUCKETS

_COUNTS = ("batches", "facts", "shed", "unmatched", "rejected", "duplicates", "probes", "hits")


@dataclass(frozen=True)
class LedgerSums:
    """What some closed batches of one pipeline add up to.

    Attributes:
        batches, facts, shed, unmatched, rejected, duplicates: counts.
        probes, hits: of the front stage.
        last_batch: number of the last one; 0 if there are none.
        first_started: when the first of them started.
        last_commit: when the last committed one was committed.
        freshness: histogram of event time to commit, int64, shape (BUCKETS,).
    """

    batches: int = 0
    facts: int = 0
    shed: int = 0
    unmatched: int = 0
    rejected: int = 0
    duplicates: int = 0
    probes: int = 0
    hits: int = 0
    last_batch: int = 0
    first_started: datetime | None = None
    last_commit: datetime | None = None
    freshness: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BUCKETS, np.int64))

    @property
    def arrived(self) -> int:
        """Events that are stored somewhere: the tuple's law."""
        return self.facts + self.shed + self.unmatched + self.rejected

    def __add__(self, later: LedgerSums) -> LedgerSums:
        return LedgerSums(
            **{name: getattr(self, name) + getattr(later, name) for name in _COUNTS},
            last_batch=later.last_batch or self.last_batch,
            first_started=self.first_started or later.first_started,
            last_commit=later.last_commit or self.last_commit,
            freshness=self.freshness + later.freshness,
        )


def sums_since(cursor: extensions.cursor, pipeline: str, batch_no: int) -> LedgerSums:
    """Sums over the pipeline's closed batches whose number is larger than this one.

    About 10 microseconds a batch; none for those before.
    """
    # One pipeline at a time: only so does the planner see that few batches are asked for, and takes the index.
    closed = "FROM freshet.batch WHERE pipeline = %s AND batch_no > %s AND state <> 'started'"
    cursor.execute(
        f"""
        SELECT count(*), coalesce(sum(facts), 0), coalesce(sum(shed), 0), coalesce(sum(unmatched), 0),
            coalesce(sum(rejected), 0), coalesce(sum(duplicates), 0),
            coalesce(sum((statistics ->> 'front_stage_probes')::bigint), 0),
            coalesce(sum((statistics ->> 'front_stage_hits')::bigint), 0),
            coalesce(max(batch_no), 0), min(started_at), max(closed_at) FILTER (WHERE state = 'committed')
        {closed}
        """,
        [pipeline, batch_no],
    )
    row = cursor.fetchone()
    assert row is not None
    batches, facts, shed, unmatched, rejected, duplicates, probes, hits, last_batch = map(int, row[:9])
    if not batches:
        return LedgerSums()
    cursor.execute(
        f"""
        SELECT bucket, sum(latency)
        FROM (SELECT event_latency {closed}) AS batch,
            unnest(event_latency) WITH ORDINALITY AS histogram (latency, bucket)
        WHERE latency > 0 GROUP BY bucket
        """,
        [pipeline, batch_no],
    )
    freshness = np.zeros(BUCKETS, np.int64)
    for bucket, count in cursor.fetchall():
        freshness[bucket - 1] = count
    return LedgerSums(
        batches,
        facts,
        shed,
        unmatched,
        rejected,
        duplicates,
        probes,
        hits,
        last_batch=last_batch,
        first_started=row[9],
        last_commit=row[10],
        freshness=freshness,
    )


def open_sums(cursor: extensions.cursor, pipeline: str) -> LedgerSums:
    """What the parts of the pipeline's open batch add up to."""
    cursor.execute(
        """
        SELECT coalesce(sum(part.facts), 0), coalesce(sum(part.shed), 0), coalesce(sum(part.unmatched), 0),
            coalesce(sum(part.rejected), 0), coalesce(sum(part.duplicates), 0)
        FROM freshet.batch JOIN freshet.batch_part AS part USING (batch_no)
        WHERE batch.pipeline = %s AND batch.state = 'started'
        """,
        [pipeline],
    )
    row = cursor.fetchone()
    assert row is not None
    facts, shed, unmatched, rejected, duplicates = map(int, row)
    return LedgerSums(0, facts, shed, unmatched, rejected, duplicates)


def last_batch_before(cursor: extensions.cursor, pipeline: str, window: timedelta) -> int:
    """Number of the pipeline's last batch that was closed before the window that ends now; 0 without one.

    Reads the batches of the window only, backwards by the index.
    """
    cursor.execute(
        """
        SELECT batch_no FROM freshet.batch WHERE pipeline = %s AND closed_at <= clock_timestamp() - %s
        ORDER BY batch_no DESC LIMIT 1
        """,
        [pipeline, window],
    )
    row = cursor.fetchone()
    return int(row[0]) if row else 0
