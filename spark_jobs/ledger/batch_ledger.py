"""The batch ledger: one row for each batch of a pipeline, whose counts add up to what is stored.

It is the stream's checkpoint, too. A batch is opened with the ranges of the source that it is to read, and closed with
what became of them: position, facts and held tuples move together. One that was cut off stays open, and the next
driver goes on with it.

A loading transaction writes what it stored as a part of its batch (freshet.batch_part) and commits both or
nothing. Closing a batch sums its parts up. So the ledger is exact whatever was cut off where.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import psycopg2.extras
from psycopg2 import extensions

from spark_jobs.errors import WriterFencedError
from spark_jobs.ledger.minute import add_to_minute
from spark_jobs.ledger.source_ranges import close_ranges, plan_ranges, planned_ranges
from spark_jobs.loading.reconciliation import drop_held_facts
from spark_jobs.source.ranges import RangeEnd, SourceRange
from spark_jobs.warehouse.fact_table import FactTable
from spark_jobs.warehouse.latency import total
from spark_jobs.warehouse.writer_sessions import lock_against_loaders, read_locked


class OpenBatch(NamedTuple):
    """A batch that is open.

    Attributes:
        batch_no: its number in the ledger, larger than that of every earlier batch.
        ranges: what it reads.
        lost: numbers of the ranges that were given up: they are gone for good, and not read any more.
    """

    batch_no: int
    ranges: list[SourceRange]
    lost: frozenset[int] = frozenset()


def open_batch(connection: extensions.connection, pipeline: str, epoch: int, ranges: Sequence[SourceRange]) -> int:
    """Open a batch with what it is to read.

    Args:
        connection: the driver's; this is one transaction on it.
        pipeline: its name.
        epoch: the driver's epoch.
        ranges: none of them taken by another batch.

    Returns:
        its number.

    Raises:
        WriterFencedError: a newer driver has taken over.
    """
    with connection, connection.cursor() as cursor:
        require_epoch(cursor, pipeline, epoch)
        cursor.execute(
            "INSERT INTO freshet.batch (pipeline, epoch) VALUES (%s, %s) RETURNING batch_no", [pipeline, epoch]
        )
        row = cursor.fetchone()
        assert row is not None
        plan_ranges(cursor, pipeline, row[0], ranges)
    return int(row[0])


def take_open_batches(connection: extensions.connection, pipeline: str, epoch: int, fact: FactTable) -> list[OpenBatch]:
    """The batches that former drivers have left open, oldest first: the driver of this epoch goes on with them.

    Batches without ranges are of a version that kept its position elsewhere: they are closed as abandoned, with the
    counts of their parts.

    Args:
        connection: the driver's; this is one transaction on it.
        pipeline: its name.
        epoch: the driver's epoch.
        fact: the pipeline's fact table.

    Raises:
        WriterFencedError: a newer driver has taken over.
    """
    taken = []
    with connection, connection.cursor() as cursor:
        require_epoch(cursor, pipeline, epoch)
        query = (
            "SELECT batch_no FROM freshet.batch WHERE pipeline = %s AND state = 'started' ORDER BY batch_no FOR UPDATE"
        )
        for (batch_no,) in lock_against_loaders(cursor, pipeline, query, [pipeline]):
            ranges, lost = planned_ranges(cursor, batch_no)
            if ranges:
                taken.append(OpenBatch(batch_no, ranges, lost))
            else:
                _close(cursor, pipeline, batch_no, "abandoned", None, {}, fact)
        cursor.execute(
            "UPDATE freshet.batch SET epoch = %s WHERE batch_no = ANY (%s)",
            [epoch, [batch.batch_no for batch in taken]],
        )
    return taken


def close_batch(
    connection: extensions.connection,
    batch_no: int,
    ends: Sequence[RangeEnd],
    statistics: Mapping[str, Any],
    fact: FactTable,
) -> None:
    """Commit a batch: settle duplicates between facts and held tuples, sum its parts up, and note what was read.

    Closing a batch that is committed already does nothing: after a lost connection it may be called again.

    Args:
        connection: the driver's; this is one transaction on it.
        batch_no: the batch.
        ends: what became of its ranges, in their order.
        statistics: figures of the batch, as JSON takes them.
        fact: the pipeline's fact table.

    Raises:
        WriterFencedError: a newer driver has taken over.
    """
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT pipeline, epoch FROM freshet.batch WHERE batch_no = %s", [batch_no])
        row = cursor.fetchone()
        if row is None:
            raise WriterFencedError(f"There is no batch {batch_no} in this warehouse's ledger.")
        pipeline, epoch = row
        require_epoch(cursor, pipeline, epoch)
        query = "SELECT state FROM freshet.batch WHERE batch_no = %s FOR UPDATE"
        ((state,),) = lock_against_loaders(cursor, pipeline, query, [batch_no])
        if state == "started":
            _close(cursor, pipeline, batch_no, "committed", close_ranges(cursor, batch_no, ends), statistics, fact)


def check_epoch(found: int, pipeline: str, epoch: int) -> None:
    """Compare the pipeline's epoch with ours.

    Raises:
        WriterFencedError: they differ; the message says why.
    """
    if found < epoch:
        raise WriterFencedError(
            f"The warehouse was restored to an earlier time: there pipeline {pipeline} has epoch {found}, this driver "
            f"has {epoch}. Nothing more is written here; the next driver goes on from what the warehouse holds."
        )
    if found > epoch:
        raise WriterFencedError(
            f"A newer driver of pipeline {pipeline} has taken over: it has epoch {found}, this one {epoch}. "
            f"Nothing more is written here; the newer one loads what is left."
        )


def require_epoch(cursor: extensions.cursor, pipeline: str, epoch: int) -> None:
    """Keep newer drivers waiting until the end of the transaction.

    Raises:
        WriterFencedError: there is one already.
    """
    query = "SELECT epoch FROM freshet.pipeline WHERE name = %(pipeline)s"
    cursor.execute(read_locked(query), {"pipeline": pipeline})
    row = cursor.fetchone()
    if row is None:
        raise WriterFencedError(f"Pipeline {pipeline} is not registered in this warehouse any more.")
    check_epoch(row[0], pipeline, epoch)


def _close(
    cursor: extensions.cursor,
    pipeline: str,
    batch_no: int,
    state: str,
    arrived: int | None,
    statistics: Mapping[str, Any],
    fact: FactTable,
) -> None:
    """Close a batch whose row is locked against its loaders; `arrived`: records of its ranges, None if not counted."""
    dropped = drop_held_facts(cursor, fact, pipeline, batch_no)
    cursor.execute(
        "DELETE FROM freshet.batch_part WHERE batch_no = %s "
        "RETURNING facts, shed, unmatched, rejected, duplicates, event_latency, arrival_latency",
        [batch_no],
    )
    parts = cursor.fetchall()
    facts, shed, unmatched, rejected, duplicates = (sum(part[k] for part in parts) for k in range(5))
    shed -= dropped["shed"]
    unmatched -= dropped["unmatched"]
    rejected -= dropped["rejected"]
    duplicates += dropped.total()
    if arrived is not None:
        # A batch that was tried again meets what its former tries have stored: those were not sent twice.
        duplicates = min(duplicates, max(arrived - facts - shed - unmatched - rejected, 0))
    cursor.execute(
        """
        UPDATE freshet.batch SET state = %s, closed_at = clock_timestamp(), arrived = %s, facts = %s, shed = %s,
            unmatched = %s, rejected = %s, duplicates = %s, event_latency = %s, arrival_latency = %s, statistics = %s
        WHERE batch_no = %s
        """,
        [
            *(state, arrived, facts, shed, unmatched, rejected, duplicates),
            total(part[5] for part in parts).tolist(),
            total(part[6] for part in parts).tolist(),
            psycopg2.extras.Json(dict(statistics), dumps=json.dumps),
            batch_no,
        ],
    )
    add_to_minute(cursor, batch_no)
