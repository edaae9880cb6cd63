"""What to make of a chunk that failed: whether its tuples may be to blame, and how they are noted if so."""

from __future__ import annotations

from collections import Counter

import psycopg2
import psycopg2.errors
from psycopg2 import extensions

from spark_jobs.errors import FreshetError
from spark_jobs.pipeline.stream_query import is_outage
from spark_jobs.pipeline.tasks.errors import cause_of
from spark_jobs.reprocessing.run_ledger import Changes, advance
from spark_jobs.reprocessing.settlement import ReprocessingRun
from spark_jobs.reprocessing.tries import FailedTries

_ERRORS_OF_FRESHET = FreshetError.__module__ + "."


def tuples_may_be_to_blame(error: Exception) -> bool:
    """Whether other tuples could have done better: not if the warehouse, the definition or Spark is at fault."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if not isinstance(error, Py4JJavaError | PySparkException) or is_outage(error):
        return False
    told = cause_of(error)
    if told.startswith("psycopg2."):
        name = told.removeprefix("psycopg2.").removeprefix("errors.").partition(":")[0]
        kind = getattr(psycopg2, name, None) or getattr(psycopg2.errors, name, None)
        # Out of disk, read-only, not allowed to, no such table: the same for every tuple.
        return not (kind and issubclass(kind, psycopg2.OperationalError | psycopg2.ProgrammingError))
    return not told.startswith(_ERRORS_OF_FRESHET)


def note_failure(cursor: extensions.cursor, run: ReprocessingRun, condition: str, reason: str) -> None:
    """Note a try that failed for all tuples of a slice that have not been settled before it did.

    Args:
        cursor: in a transaction.
        run: the run.
        condition: SQL condition on freshet.held_tuple AS h of the slice.
        reason: why it failed.

    Raises:
        WriterFencedError: the run is closed. The transaction must not be committed.
    """
    cursor.execute(
        f"SELECT h.event_id, h.place, h.relation FROM freshet.held_tuple AS h WHERE {condition} "
        "ORDER BY h.event_id FOR UPDATE"
    )
    rows = cursor.fetchall()
    places = [place for _, place, _ in rows]
    tries = FailedTries([row[0] for row in rows], places, [reason] * len(rows), [row[2] for row in rows])
    placed, left = tries.note(cursor, run.event.pipeline, run.batch_no, run.policy), Counter(places)
    changes = Changes(
        taken=len(rows),
        shed=placed["shed"] - left["shed"],
        unmatched=placed["unmatched"] - left["unmatched"],
        rejected=placed["rejected"],
    )
    advance(cursor, run.batch_no, changes)
