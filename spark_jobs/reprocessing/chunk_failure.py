"""What to make of a chunk that failed: whether its tuples may be to blame, and how they are noted if so."""

from __future__ import annotations

from collections import Counter

import psycopg2
from psycopg2 import extensions

from spark_jobs.definition.fates import FATES
from spark_jobs.errors import FreshetError
from spark_jobs.reprocessing.run_ledger import BalanceChange, advance
from spark_jobs.reprocessing.settlement import FailedTries, ReprocessingRun
from spark_jobs.stages.failure_kind import failure_kind
from spark_jobs.task_errors import kind_of, lost_its_process

# Ours; out of disk, not allowed to, no such table or file.
_SAME_FOR_ALL_TUPLES = (FreshetError, OSError, psycopg2.OperationalError, psycopg2.ProgrammingError)

_TASK_TRACEBACK = "Traceback (most recent call last):"


def tuples_may_be_to_blame(error: Exception) -> bool:
    """Whether other tuples could have done better: not if the warehouse, the definition or Spark is at fault.

    Tuples make a task of ours raise an error, or end its process. Whatever else Spark tells is its own: a full disk,
    a context that was stopped.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if not isinstance(error, Py4JJavaError | PySparkException) or failure_kind(error):
        return False
    if lost_its_process(error):
        return True
    return _TASK_TRACEBACK in str(error) and not issubclass(kind_of(error), _SAME_FOR_ALL_TUPLES)


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
        f"SELECT h.event_id, h.fate, h.relation FROM freshet.held_tuple AS h WHERE {condition} "
        "ORDER BY h.event_id FOR UPDATE"
    )
    rows = cursor.fetchall()
    fates = [FATES[fate] for _, fate, _ in rows]
    tries = FailedTries([row[0] for row in rows], fates, [reason] * len(rows), [row[2] for row in rows])
    placed = tries.note(cursor, run.event.pipeline, run.batch_no, run.policy)
    left = Counter(fate.place for fate in fates if fate.place)
    advance(cursor, run.batch_no, BalanceChange.of(left, 0, placed))
