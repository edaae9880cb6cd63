"""What batches of a pipeline's ledger, and its reprocessing runs, add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import numpy as np
from psycopg2 import extensions

from spark_jobs.definition.fates import PLACES
from spark_jobs.definition.stream_tuple import LoadCounts
from spark_jobs.ledger.latency import BUCKETS, Int64Array, total

# SQL expressions on a row of freshet.batch.
RECORDS = "coalesce(arrived, facts + shed + unmatched + rejected + duplicates)"
PLACED = "coalesce(placed, facts + shed + unmatched + rejected)"
PROBES = "coalesce((statistics ->> 'front_stage_probes')::bigint, 0)"
HITS = "coalesce((statistics ->> 'front_stage_hits')::bigint, 0)"

_COUNTS = ("batches", "records", "facts", *PLACES, "duplicates", "placed")
# A batch's histogram costs some twenty times what its counts do. A minute's sums stand for its batches if the counts
# are the same: they are not where retention has deleted some of them, where they are older than the sums by minute,
# and in the minute that is cut by the end.
_SUMS = f"""
    SELECT known.pipeline, summed.* FROM unnest(%(pipelines)s::text[]) AS known (pipeline) CROSS JOIN LATERAL (
        WITH counted AS (
            SELECT date_trunc('minute', closed_at) AS minute, count(*) AS batches,
                sum({RECORDS}) AS records,
                sum(facts) AS facts,
                sum(shed) AS shed, sum(unmatched) AS unmatched, sum(rejected) AS rejected,
                sum(duplicates) AS duplicates, sum({PLACED}) AS placed,
                max(closed_at) FILTER (WHERE state = 'committed') AS last_commit,
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
            sum(rejected)::bigint, sum(duplicates)::bigint, sum(placed)::bigint, max(last_commit),
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


def added_histogram(kept: str, histogram: str) -> str:
    """SQL expression of an upsert: the histogram that a table keeps and the one that is added, bucket by bucket.

    The longer one, of a version with more buckets, keeps its length.
    """
    return (
        "(SELECT array_agg(coalesce(former, 0) + coalesce(latency, 0) ORDER BY bucket) "
        f"FROM unnest({kept}.{histogram}, excluded.{histogram}) WITH ORDINALITY AS paired (former, latency, bucket))"
    )


@dataclass(frozen=True)
class LedgerSums:
    """What some batches of one pipeline add up to.

    Attributes:
        batches: how many.
        records: records that they read, duplicates among them, counted where they were read.
        facts, shed, unmatched, rejected: what was stored, counted where it was.
        duplicates: records of events that had come before.
        placed: events that are in a place. Of one stream these are facts and held tuples; of several that are joined,
            events that are in one of those, or wait in the state.
        last_commit: when the last committed one was committed.
        freshness: histogram of event time to commit, int64, shape (BUCKETS,).
    """

    batches: int = 0
    records: int = 0
    facts: int = 0
    shed: int = 0
    unmatched: int = 0
    rejected: int = 0
    duplicates: int = 0
    placed: int = 0
    last_commit: datetime | None = None
    freshness: Int64Array = field(default_factory=lambda: np.zeros(BUCKETS, np.int64))

    @property
    def arrived(self) -> int:
        """Events that arrived, those that came again left out."""
        return self.records - self.duplicates

    @property
    def unaccounted(self) -> int:
        """Events that arrived and are in no place: by the tuple's law there are none."""
        return self.arrived - self.placed

    @property
    def counts(self) -> tuple[int, ...]:
        """Its counts, which can be compared."""
        return tuple(getattr(self, name) for name in _COUNTS)

    def __add__(self, later: LedgerSums) -> LedgerSums:
        return LedgerSums(
            **{name: getattr(self, name) + getattr(later, name) for name in _COUNTS},
            last_commit=later.last_commit or self.last_commit,
            freshness=self.freshness + later.freshness,
        )


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


@dataclass
class _Final:
    """The runs of a pipeline that can't change any more; retention may have deleted them since.

    Attributes:
        last: number of a run that has none before it that may change.
        sums: of the runs up to that one.
        beyond: the others, by number.
    """

    last: int = 0
    sums: LoadCounts = field(default_factory=LoadCounts)
    beyond: dict[int, LoadCounts] = field(default_factory=dict)

    def move_on(self, before: int | None) -> None:
        """Add up the runs before this one, the first that may change; None: all."""
        for batch_no in sorted(self.beyond):
            if before is not None and batch_no > before:
                return
            self.sums = self.sums + self.beyond.pop(batch_no)
            self.last = batch_no


class ReprocessedReader:
    """Sums of the runs, of which those that can't change any more are read once."""

    def __init__(self) -> None:
        self._final: dict[str, _Final] = {}

    def forget(self, pipeline: str) -> None:
        """Read all runs of a pipeline the next time: retention may have deleted some that were not seen."""
        self._final.pop(pipeline, None)

    def read(self, cursor: extensions.cursor, pipelines: Sequence[str]) -> dict[str, LoadCounts]:
        """What all runs of each of these pipelines add up to; those that run now count with what they have done."""
        final = [self._final.setdefault(pipeline, _Final()) for pipeline in pipelines]
        # A run is open for others to see a moment after its number was drawn, and two may close in any order: final is
        # what was closed a while ago, and has nothing before it that was not.
        cursor.execute(
            """
            SELECT run.* FROM unnest(%s::text[], %s::bigint[]) AS known (pipeline, after) CROSS JOIN LATERAL (
                SELECT pipeline, batch_no, closed_at < clock_timestamp() - interval '1 minute', facts, shed, unmatched,
                    rejected
                FROM freshet.reprocessing_run WHERE pipeline = known.pipeline AND batch_no > known.after
                ORDER BY batch_no) AS run
            """,
            [list(pipelines), [each.last for each in final]],
        )
        unsettled: dict[str, dict[int, LoadCounts]] = {pipeline: {} for pipeline in pipelines}
        for pipeline, batch_no, settled, *changes in cursor.fetchall():
            runs = self._final[pipeline].beyond if settled else unsettled[pipeline]
            runs[batch_no] = LoadCounts(*changes)
        for pipeline in pipelines:
            self._final[pipeline].move_on(before=min(unsettled[pipeline], default=None))
        return {
            pipeline: sum(
                [*self._final[pipeline].beyond.values(), *unsettled[pipeline].values()], self._final[pipeline].sums
            )
            for pipeline in pipelines
        }
