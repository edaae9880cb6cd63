"""Whether a stream rejects what it reads: most of its newest tuples became no facts, and not for want of time.

The newest are those of the minute that ended with the last arrival, however long ago that is: a stream that is silent
after it has rejected all is not well again. Where they are few, earlier ones of a day are looked at as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from psycopg2 import extensions

from spark_jobs.definition.fates import FAILED_PLACES, REJECTED, Share, listed, named
from spark_jobs.ledger.stored_shape import ACCUMULATES

LEAST_TUPLES = 20
"""Fewer tuples than these tell nothing of a stream, unless all of them failed."""
LEAST_OF_ALL_FAILED = 5
"""Fewer than these tell nothing even then: their master data may be on its way."""
SHARE = 0.5
"""The share of them, rejected or unmatched, from which a stream counts as rejecting."""

_LOOKED_BACK = timedelta(minutes=1)
_FURTHEST_BACK = timedelta(days=1)
# A batch takes 50 ms at least.
_MOST_BATCHES = 1500
# Of how many of the newest held tuples the commonest reason is told: all of a minute may be hundreds of thousands.
_SAMPLED = 1000


def _is(share: Share | None) -> str:
    """SQL condition: of a fate that counts there in the sum of its stream."""
    return f"fate IN ({listed(named(share=share))})"


# `arrived` tells of events that only wait to be joined: they are an arrival, too.
_NEWEST = f"""
    WITH batch AS (
        SELECT name AS pipeline, newest.* FROM unnest(%(names)s::text[]) AS name CROSS JOIN LATERAL (
            SELECT batch_no, closed_at, facts + shed AS stored, unmatched + rejected AS failed,
                coalesce(arrived > duplicates, false) OR facts + shed + abs(unmatched) + rejected > 0 AS has_arrived
            FROM freshet.batch WHERE batch.pipeline = name AND state = 'committed'
            ORDER BY batch_no DESC LIMIT %(most)s) AS newest
    ), counted AS (
        SELECT *, max(closed_at) FILTER (WHERE has_arrived) OVER (PARTITION BY pipeline) AS until,
            sum(stored + failed) OVER (PARTITION BY pipeline ORDER BY batch_no DESC) - stored - failed AS newer
        FROM batch
    ), recent AS (
        SELECT * FROM counted WHERE closed_at > until - %(minute)s::interval
            OR (newer < %(least)s AND closed_at > until - %(day)s::interval)
    ), of_stream AS (
        SELECT pipeline, stream, sum(arrived) - coalesce(sum(known), 0) AS tuples,
            coalesce(sum(settled.failed), 0) AS failed, coalesce(sum(expired), 0) AS expired
        FROM recent JOIN freshet.batch_stream USING (batch_no) LEFT JOIN (
            SELECT batch_no, stream, sum(tuples) FILTER (WHERE {_is("duplicates")}) AS known,
                sum(tuples) FILTER (WHERE {_is(REJECTED.share)}) AS failed,
                sum(tuples) FILTER (WHERE {_is("expired")}) AS expired
            FROM recent JOIN freshet.batch_fate USING (batch_no) GROUP BY batch_no, stream
        ) AS settled USING (batch_no, stream)
        GROUP BY pipeline, stream
    ), as_whole AS (
        SELECT pipeline, min(batch_no) AS since, max(batch_no) AS last, sum(stored) AS stored, sum(failed) AS failed
        FROM recent GROUP BY pipeline
    ), of_results AS (
        SELECT pipeline, since, stored, greatest(failed - coalesce(
            (SELECT sum(failed + expired) FROM of_stream WHERE of_stream.pipeline = as_whole.pipeline), 0)
            - CASE WHEN {ACCUMULATES}
                THEN (SELECT coalesce(sum(tuples), 0) FROM freshet.batch_fate
                      WHERE batch_no = last AND {_is("waiting")})
                    - (SELECT coalesce(sum(tuples), 0) FROM freshet.batch_fate WHERE {_is("waiting")} AND batch_no = (
                        SELECT max(batch_no) FROM freshet.batch
                        WHERE batch.pipeline = as_whole.pipeline AND state = 'committed' AND batch_no < since))
                ELSE 0 END, 0) AS failed
        FROM as_whole JOIN freshet.pipeline ON name = as_whole.pipeline
    )
    SELECT pipeline, since, (stored + of_results.failed)::bigint, of_results.failed::bigint,
        of_stream.tuples::bigint, of_stream.failed::bigint
    FROM of_results LEFT JOIN of_stream USING (pipeline)
"""


class _Counted(NamedTuple):
    """What was counted of tuples that are judged together.

    Attributes:
        tuples: that found a place.
        failed: of them, those that are rejected or unmatched.
        least: fewer tell nothing, though all of them failed.
    """

    tuples: int
    failed: int
    least: int

    @property
    def is_rejected(self) -> bool:
        """Whether they are enough to tell, and most of them failed."""
        least = self.least if self.failed == self.tuples else LEAST_TUPLES
        return self.tuples >= least and self.failed >= SHARE * self.tuples


def read_rejections(cursor: extensions.cursor, names: Sequence[str]) -> dict[str, str]:
    """Why pipelines count as rejecting, by name; the others are not there.

    Of several streams each is judged by its own events, and what was joined by its facts. Events that have expired are
    no failure: how many find no partner is a matter of the events. Nor are parts of accumulating facts that wait for
    their row. What was requeued or forgotten since fails no more. O(batches of a minute) for each pipeline.

    Args:
        cursor: in a transaction.
        names: of the pipelines; those that hold nothing rejected or unmatched need not be among them.
    """
    if not names:
        return {}
    cursor.execute(_NEWEST, {
        "names": list(names), "minute": _LOOKED_BACK, "day": _FURTHEST_BACK, "least": LEAST_TUPLES,
        "most": _MOST_BATCHES,
    })  # fmt: skip
    worst: dict[str, tuple[_Counted, int]] = {}
    for pipeline, since, tuples, failed, of_stream, failed_of_stream in cursor.fetchall():
        whole = _Counted(tuples, failed, LEAST_OF_ALL_FAILED if of_stream is None else LEAST_TUPLES)
        for counted in (whole, _Counted(of_stream or 0, failed_of_stream or 0, LEAST_TUPLES)):
            if counted.is_rejected and (pipeline not in worst or counted.failed > worst[pipeline][0].failed):
                worst[pipeline] = counted, since
    told = {pipeline: _told(cursor, pipeline, *found) for pipeline, found in worst.items()}
    return {pipeline: words for pipeline, words in told.items() if words is not None}


def _told(cursor: extensions.cursor, pipeline: str, counted: _Counted, since: int) -> str | None:
    reason = _commonest_reason(cursor, pipeline, since)
    if reason is None:
        return None  # none of them is held any more
    return f"{counted.failed:,} of the newest {counted.tuples:,} tuples are rejected or unmatched; most often: {reason}"


def _commonest_reason(cursor: extensions.cursor, pipeline: str, since: int) -> str | None:
    """Of the newest held tuples; those whose reasons differ in numbers only count as one, and one of them is told."""
    cursor.execute(
        f"""
        SELECT min(reason) FROM (
            SELECT reason FROM freshet.held_tuple
            WHERE pipeline = %s AND batch_no >= %s AND place IN ({listed(FAILED_PLACES)})
            ORDER BY batch_no DESC LIMIT %s) AS newest
        GROUP BY regexp_replace(reason, '[0-9]+', '…', 'g') ORDER BY count(*) DESC, 1 LIMIT 1
        """,
        [pipeline, since, _SAMPLED],
    )
    row = cursor.fetchone()
    return None if row is None else str(row[0])
