"""Tries that made no fact: what they do to the rows of the held tuples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from psycopg2 import extensions

from spark_jobs.definition.stream_tuple import Place

# The pause doubles so often at most: after a dozen tries it is thousands of times the first.
_MOST_DOUBLINGS = 12

# A try counts if it was due. One that was made earlier, because R had changed or somebody asked for it, changes nothing
# of when the next one is due.
_COUNTS = "(h.retry_at IS NULL OR h.retry_at <= now())"
_ATTEMPTS = f"(h.attempts + {_COUNTS}::int)"
_EXHAUSTED = f"(t.place <> 'rejected' AND {_ATTEMPTS} >= %(most_attempts)s)"
_PLACE = f"(CASE WHEN {_EXHAUSTED} THEN 'rejected' ELSE t.place END)"

# Retention counts from when a tuple came into its place.
_NOTE = f"""
    WITH tried AS (
        UPDATE freshet.held_tuple AS h SET
            place = {_PLACE},
            held_at = CASE WHEN h.place = {_PLACE} THEN h.held_at ELSE clock_timestamp() END,
            reason = CASE
                WHEN {_EXHAUSTED} THEN concat({_ATTEMPTS}, ' tries came to nothing; the last one: ', t.reason)
                ELSE t.reason END,
            relation = t.relation,
            attempts = {_ATTEMPTS},
            tried_at = clock_timestamp(),
            tried_xmin = (SELECT pg_snapshot_xmin(seen) FROM freshet.reprocessing_run WHERE batch_no = %(batch_no)s),
            retry_at = CASE
                WHEN t.place = 'rejected' OR {_EXHAUSTED} THEN NULL
                WHEN {_COUNTS} THEN now() + %(first_pause)s * power(2, least(h.attempts, {_MOST_DOUBLINGS}))
                ELSE h.retry_at END
        FROM unnest(%(event_ids)s::text[], %(places)s::text[], %(reasons)s::text[], %(relations)s::text[])
            AS t(event_id, place, reason, relation)
        WHERE h.pipeline = %(pipeline)s AND h.event_id = t.event_id
        RETURNING h.place
    )
    SELECT place, count(*) FROM tried GROUP BY place
"""


@dataclass(frozen=True)
class RetryPolicy:
    """When a tuple is tried again, and when that is given up.

    Attributes:
        most_attempts: tries that count; after so many a tuple is rejected.
        first_pause: time from the first try to the second; each further pause is twice the one before.
    """

    most_attempts: int
    first_pause: timedelta


@dataclass(frozen=True)
class FailedTries:
    """Tries of n held tuples that made no facts of them; equally long lists.

    Attributes:
        event_ids: as freshet.held_tuple has them.
        places: where each belongs now.
        reasons: why.
        relations: the relation that is to blame; None where none is.
    """

    event_ids: Sequence[str]
    places: Sequence[Place]
    reasons: Sequence[str]
    relations: Sequence[str | None]

    def note(self, cursor: extensions.cursor, pipeline: str, batch_no: int, policy: RetryPolicy) -> Counter[Place]:
        """Write them into the rows, which the transaction has locked.

        Args:
            cursor: in that transaction.
            pipeline: whose tuples they are.
            batch_no: the run that made the tries.
            policy: the pipeline's.

        Returns:
            how many tuples are in which place now: tuples tried too often are rejected.
        """
        if not self.event_ids:
            return Counter()
        cursor.execute(_NOTE, {**vars(self), **vars(policy), "pipeline": pipeline, "batch_no": batch_no})
        return Counter(dict(cursor.fetchall()))
